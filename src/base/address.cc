#include "src/base/address.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "src/base/error.h"

namespace tutti::base {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::optional<std::uint32_t> scope_from(std::string_view text) {
  if (const unsigned index = if_nametoindex(std::string(text).c_str()); index != 0) return index;
  std::uint32_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index == 0) return std::nullopt;
  return index;
}

// "10.0.0.2", "fe80::1%eth0"
std::optional<Address> parse_host(std::string_view text) {
  Address address;
  const std::string plain(text.substr(0, text.find('%')));
  if (inet_pton(AF_INET, plain.c_str(), address.bytes.data()) == 1)
    return plain.size() == text.size() ? std::optional(address) : std::nullopt;
  in6_addr six{};
  if (inet_pton(AF_INET6, plain.c_str(), &six) != 1) return std::nullopt;
  sockaddr_in6 raw{};
  raw.sin6_family = AF_INET6;
  raw.sin6_addr = six;
  if (plain.size() != text.size()) {
    const auto scope = scope_from(text.substr(plain.size() + 1));
    if (!scope) return std::nullopt;
    raw.sin6_scope_id = *scope;
  }
  SocketAddress socket_address;
  std::memcpy(&socket_address.storage, &raw, sizeof(raw));
  return socket_address.address();
}

int prefix_bits_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const bool v6 = mask->sa_family == AF_INET6;
  const auto* bytes = v6 ? reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr
                         : reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
  int bits = 0;
  for (int i = 0; i < (v6 ? 16 : 4); ++i) bits += __builtin_popcount(bytes[i]);
  return bits;
}

}  // namespace

bool Address::loopback() const {
  if (!v6) return bytes[0] == 127;
  return bytes[15] == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; });
}

bool Address::link_local() const {
  return v6 ? bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 : bytes[0] == 169 && bytes[1] == 254;
}

bool Address::same_subnet(const Address& other, int prefix_bits) const {
  if (v6 != other.v6 || prefix_bits <= 0) return false;
  const int bits = std::min(prefix_bits, v6 ? 128 : 32);
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(bytes.begin(), bytes.begin() + bits / 8, other.bytes.begin())) return false;
  return bits % 8 == 0 || (bytes[whole] ^ other.bytes[whole]) >> (8 - bits % 8) == 0;
}

std::string to_string(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text.data(), text.size());
  std::string host = text.data();
  if (address.scope != 0) {
    std::array<char, IF_NAMESIZE> name{};
    host += '%';
    host += if_indextoname(address.scope, name.data()) != nullptr ? name.data() : std::to_string(address.scope);
  }
  if (address.port == 0) return host;
  if (address.v6) host.insert(0, 1, '[').push_back(']');
  return host + ':' + std::to_string(address.port);
}

std::optional<Address> parse_address(std::string_view text) {
  if (text.size() > 128) return std::nullopt;
  if (const auto plain = parse_host(text)) return plain;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const bool brackets = colon >= 2 && text[0] == '[' && text[colon - 1] == ']';
  const std::string_view host = brackets ? text.substr(1, colon - 2) : text.substr(0, colon);
  auto address = parse_host(host);
  const std::string_view digits = text.substr(colon + 1);
  if (!address || brackets != (host.find(':') != std::string_view::npos)) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address->port);
  if (error != std::errc() || end != digits.data() + digits.size() || address->port == 0) return std::nullopt;
  return address;
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failed != 0) {
    const std::string reason = failed == EAI_SYSTEM ? errno_text() : gai_strerror(failed);
    throw Error(ErrorCode::invalid_argument, "cannot resolve '" + host + "': " + reason);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress raw;
    std::memcpy(&raw.storage, entry->ai_addr, entry->ai_addrlen);
    Address address = raw.address();
    address.port = port;
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  if (addresses.empty()) throw Error(ErrorCode::invalid_argument, "'" + host + "' has no IPv4 or IPv6 address");
  return addresses;
}

SocketAddress::SocketAddress(const Address& address) {
  if (address.v6) {
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    raw.sin6_port = htons(address.port);
    raw.sin6_scope_id = address.scope;
    std::memcpy(&raw.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&storage, &raw, length = sizeof(raw));
  } else {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_port = htons(address.port);
    std::memcpy(&raw.sin_addr, address.bytes.data(), 4);
    std::memcpy(&storage, &raw, length = sizeof(raw));
  }
}

Address SocketAddress::address() const {
  Address address;
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 raw{};
    std::memcpy(&raw, &storage, sizeof(raw));
    address.port = ntohs(raw.sin6_port);
    const std::uint8_t* bytes = raw.sin6_addr.s6_addr;
    if (std::equal(kMapped.begin(), kMapped.end(), bytes)) {
      std::copy(bytes + 12, bytes + 16, address.bytes.begin());
    } else {
      address.v6 = true;
      std::copy(bytes, bytes + 16, address.bytes.begin());
      if (address.link_local()) address.scope = raw.sin6_scope_id;
    }
  } else if (storage.ss_family == AF_INET) {
    sockaddr_in raw{};
    std::memcpy(&raw, &storage, sizeof(raw));
    address.port = ntohs(raw.sin_port);
    std::memcpy(address.bytes.data(), &raw.sin_addr, 4);
  }
  return address;
}

std::string SocketAddress::text() const {
  if (storage.ss_family == AF_UNIX) {
    constexpr std::size_t kName = offsetof(sockaddr_un, sun_path) + 1;
    if (length <= kName) return "a process of this host";
    return "@" + std::string(reinterpret_cast<const char*>(&storage) + kName, length - kName);
  }
  if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6) return "an unknown address";
  return to_string(address());
}

SocketAddress unix_address(std::string_view name) {
  sockaddr_un raw{};
  raw.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof(raw.sun_path) - 1);
  std::memcpy(raw.sun_path + 1, name.data(), bytes);  // behind a zero byte, which says that the name is abstract
  SocketAddress address;
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  std::memcpy(&address.storage, &raw, address.length);
  return address;
}

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("cannot list this host's network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress raw;
    std::memcpy(&raw.storage, entry->ifa_addr, family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    found.push_back(
        {entry->ifa_name, raw.address(), prefix_bits_of(entry->ifa_netmask), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::vector<std::string> reachable_addresses() {
  std::vector<std::string> v4, v6;
  for (const Interface& interface : interfaces()) {
    const Address& address = interface.address;
    if (interface.loopback || (address.v6 && address.link_local())) continue;
    (address.v6 ? v6 : v4).push_back(to_string(address));
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

std::vector<Interface> filter_interfaces(std::string_view source, std::string_view filter,
                                         const std::vector<Interface>& all) {
  const auto reject = [&](const std::string& why) {
    std::string names;
    for (const Interface& interface : all) {
      if (!names.empty()) names += ", ";
      names += interface.name + " (" + to_string(interface.address) + ")";
    }
    throw Error(ErrorCode::invalid_argument,
                std::string(source) + " is '" + std::string(filter) + "': " + why +
                    "; valid: a comma list of interface name prefixes, exact names after '=', excluded after '^' "
                    "(eth,ib / =eth0 / ^docker,lo); interfaces here: " +
                    (names.empty() ? "none" : names));
  };
  std::string_view rest = filter;
  const bool exclude = rest.starts_with('^');
  if (exclude) rest.remove_prefix(1);
  const bool exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  std::vector<std::string_view> names;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    if (names.back().empty()) reject("it has an empty name");
    if (names.back().find_first_of("^= \t:") != std::string_view::npos)
      reject(std::string(names.back()).append(" is not an interface name"));
  }
  std::vector<Interface> chosen;
  for (const Interface& interface : all) {
    const bool listed = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return exact ? interface.name == name : std::string_view(interface.name).starts_with(name);
    });
    if (listed != exclude) chosen.push_back(interface);
  }
  if (chosen.empty()) reject("no interface is left");
  return chosen;
}

}  // namespace tutti::base
