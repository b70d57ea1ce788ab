#include "transport/tcp/endpoints.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <sodium.h>
#include <sys/stat.h>

#include "tutti/error.h"

namespace tutti::transport::tcp {
namespace {

constexpr std::uint8_t kForm = 1;
constexpr std::size_t kHeadBytes = 1 + 16 + 2 + 1;  // form, network, port, number of addresses
constexpr std::size_t kAddressBytes = 1 + 16;       // 4 or 6, bytes

// A hash of the kernel's boot id and the inode of this process' network namespace.
std::array<std::uint8_t, 16> network_token() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) == 0)
    text += ' ' + std::to_string(info.st_dev) + ' ' + std::to_string(info.st_ino);
  std::array<std::uint8_t, 16> token{};
  crypto_generichash(token.data(), token.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     nullptr, 0);
  return token;
}

enum Preference { loopback, same_subnet, elsewhere, ours_too, link_local };

Preference preference(const base::Address& address, const std::vector<base::Interface>& interfaces) {
  if (address.loopback()) return loopback;
  if (address.link_local()) return link_local;
  const auto any = [&](auto holds) { return std::any_of(interfaces.begin(), interfaces.end(), holds); };
  if (any([&](const base::Interface& own) { return own.address.same_host(address); })) return ours_too;
  if (any([&](const base::Interface& own) { return own.address.same_subnet(address, own.prefix_bits); }))
    return same_subnet;
  return elsewhere;
}

}  // namespace

Endpoints own_endpoints(std::uint16_t port, const std::vector<base::Interface>& interfaces) {
  Endpoints own{network_token(), port, {}};
  for (const base::Interface& interface : interfaces) {
    base::Address address = interface.address;
    address.scope = 0;
    address.port = 0;
    if (own.addresses.size() < kMostAddresses &&
        std::find(own.addresses.begin(), own.addresses.end(), address) == own.addresses.end())
      own.addresses.push_back(address);
  }
  return own;
}

runtime::Blob encode(const Endpoints& endpoints) {
  runtime::Blob blob;
  const auto put = [&](std::uint8_t byte) { blob.push_back(std::byte{byte}); };
  put(kForm);
  for (const std::uint8_t byte : endpoints.network) put(byte);
  put(static_cast<std::uint8_t>(endpoints.port >> 8));
  put(static_cast<std::uint8_t>(endpoints.port));
  put(static_cast<std::uint8_t>(endpoints.addresses.size()));
  for (const base::Address& address : endpoints.addresses) {
    put(address.v6 ? 6 : 4);
    for (const std::uint8_t byte : address.bytes) put(byte);
  }
  return blob;
}

Endpoints decode(const runtime::Blob& blob, int rank) {
  if (blob.empty()) return {};
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(blob[i]); };
  const auto reject = [&](const std::string& why) {
    throw Error(ErrorCode::remote_error, "the TCP address of rank " + std::to_string(rank) + " is malformed: " + why +
                                             " (do all ranks use the same version of the library?)");
  };
  if (at(0) != kForm) reject("its form is " + std::to_string(at(0)) + ", this rank knows " + std::to_string(kForm));
  const std::size_t count = blob.size() < kHeadBytes ? 0 : at(kHeadBytes - 1);
  if (blob.size() != kHeadBytes + count * kAddressBytes || count > kMostAddresses)
    reject("it has " + std::to_string(blob.size()) + " bytes for " + std::to_string(count) + " addresses");
  Endpoints endpoints;
  for (std::size_t i = 0; i < 16; ++i) endpoints.network[i] = at(1 + i);
  endpoints.port = static_cast<std::uint16_t>(at(17) << 8 | at(18));
  if (endpoints.port == 0) reject("its port is 0");
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t start = kHeadBytes + i * kAddressBytes;
    if (at(start) != 4 && at(start) != 6) reject("an address is neither IPv4 nor IPv6");
    base::Address address;
    address.v6 = at(start) == 6;
    for (std::size_t b = 0; b < (address.v6 ? 16 : 4); ++b) address.bytes[b] = at(start + 1 + b);
    endpoints.addresses.push_back(address);
  }
  return endpoints;
}

std::vector<base::Address> candidates(const Endpoints& peer, const Endpoints& own,
                                      const std::vector<base::Interface>& interfaces) {
  std::vector<std::pair<Preference, base::Address>> ranked;
  for (base::Address address : peer.addresses) {
    address.port = peer.port;
    const Preference kind = preference(address, interfaces);
    if (kind == loopback && peer.network != own.network) continue;
    if (kind != link_local || !address.v6) {
      ranked.emplace_back(kind, address);
      continue;
    }
    for (const base::Interface& interface : interfaces) {  // the scope id names an interface of ours, not of the peer's
      if (!interface.address.v6 || interface.address.scope == 0 || ranked.size() >= kMostAddresses) continue;
      address.scope = interface.address.scope;
      ranked.emplace_back(kind, address);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<base::Address> order;
  for (const auto& [kind, address] : ranked)
    if (std::find(order.begin(), order.end(), address) == order.end()) order.push_back(address);
  return order;
}

}  // namespace tutti::transport::tcp
