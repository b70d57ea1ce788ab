// Where a rank can be reached: what it tells the others, and in which order they try it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/base/address.h"
#include "src/runtime/transport.h"

namespace tutti::transport::tcp {

struct Endpoints {
  // Equal for processes that share a network namespace: these reach each other's loopback addresses.
  std::array<std::uint8_t, 16> network{};
  std::uint16_t port = 0;
  std::vector<base::Address> addresses;  // without port and scope; at most kMostAddresses
};
inline constexpr std::size_t kMostAddresses = 64;

Endpoints own_endpoints(std::uint16_t port, const std::vector<base::Interface>& interfaces);

// The form that is exchanged; byte order and version independent. Throws Error(remote_error) naming `rank` for bytes
// that are not of that form. An empty blob is a rank without TCP: no addresses.
runtime::Blob encode(const Endpoints& endpoints);
Endpoints decode(const runtime::Blob& blob, int rank);

// The peer's addresses, most promising first: loopback (within one network namespace only, first), then addresses in a
// subnet of ours, other global ones, addresses that this host has too (bridges that are equal on many hosts),
// link-local ones last, once for each interface they may lie behind. A wrong one costs a try: the handshake tells.
std::vector<base::Address> candidates(const Endpoints& peer, const Endpoints& own,
                                      const std::vector<base::Interface>& interfaces);

}  // namespace tutti::transport::tcp
