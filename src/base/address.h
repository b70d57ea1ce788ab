// Addresses of sockets, and which of them this host has. IPv4 and IPv6 alike, numeric; names are looked up by
// resolve().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace tutti::base {

// An address with a port. An IPv4 address mapped into IPv6 (::ffff:10.0.0.2) is never kept: it is held as IPv4.
struct Address {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 uses the first four
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  // of IPv6 link-local addresses: this host's index of the interface

  bool loopback() const;    // 127.0.0.0/8, ::1
  bool link_local() const;  // 169.254.0.0/16, fe80::/10
  bool same_host(const Address& other) const { return v6 == other.v6 && bytes == other.bytes; }  // ports aside
  bool same_subnet(const Address& other, int prefix_bits) const;
  friend bool operator==(const Address&, const Address&) = default;
};

// "10.0.0.2:41000", "[fe80::1%eth0]:41000"; without the port when it is 0: "10.0.0.2", "fe80::1%eth0".
std::string to_string(const Address& address);
// The same spellings, numeric addresses only; nothing for anything else.
std::optional<Address> parse_address(std::string_view text);
// All addresses of a name or numeric address, in the resolver's order. Blocks as long as the resolver does. Throws
// Error(invalid_argument) that names the host when it has none.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);

// What the system's calls take: an Address, or a name of a Unix socket.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  SocketAddress() = default;
  SocketAddress(const Address& address);
  Address address() const;  // all zero for a Unix socket
  bool local() const { return storage.ss_family == AF_UNIX; }
  std::string text() const;  // "10.0.0.4:41233", "[::1]:41233", "@tutti-..."
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// A name in the abstract name space: it lives in the network namespace, not in the file system, and dies with its
// socket.
SocketAddress unix_address(std::string_view name);

// One address of one interface of this host; an interface with several addresses appears several times.
struct Interface {
  std::string name;
  Address address;
  int prefix_bits = 0;    // of its subnet
  bool loopback = false;  // the interface itself, whatever its addresses
};

// The interfaces that are up, in the system's order.
std::vector<Interface> interfaces();

// The addresses of this host that others may reach, as texts, best first: IPv4, then IPv6; none of a loopback interface
// and no link-local ones of IPv6.
std::vector<std::string> reachable_addresses();

// Those that a filter of NCCL's grammar lets through: a comma list of name prefixes ("eth", "eth,ib"), exact names
// after `=` ("=eth0"), either excluded by a leading `^` ("^docker,lo", "^=docker0"). Throws Error(invalid_argument)
// that names `source` and lists the interfaces when the filter is malformed or lets none through.
std::vector<Interface> filter_interfaces(std::string_view source, std::string_view filter,
                                         const std::vector<Interface>& all);

}  // namespace tutti::base
