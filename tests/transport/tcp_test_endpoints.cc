#include <catch2/catch.hpp>

#include <sodium.h>

#include "tests/transport/tcp_test_support.h"

using namespace tcp_test;
using tutti::base::Address;
using tutti::base::Interface;
using tutti::base::parse_address;
using tutti::base::to_string;
using tutti::runtime::Blob;
using tutti::transport::tcp::Endpoints;

namespace {

Endpoints endpoints(std::uint8_t network, const std::vector<const char*>& addresses) {
  Endpoints e;
  e.network.fill(network);
  e.port = 41000;
  for (const char* text : addresses) e.addresses.push_back(*parse_address(text));
  return e;
}

Interface interface(const char* name, const char* address, int prefix_bits, std::uint32_t scope = 0) {
  Interface i{name, *parse_address(address), prefix_bits};
  i.address.scope = scope;
  return i;
}

std::vector<std::string> order(const Endpoints& peer, std::uint8_t network, const std::vector<Interface>& interfaces) {
  std::vector<std::string> texts;
  for (Address address : candidates(peer, endpoints(network, {}), interfaces)) {
    const std::string scope = address.scope != 0 ? "%" + std::to_string(address.scope) : "";
    address.scope = 0;
    CHECK(address.port == 41000);
    address.port = 0;
    texts.push_back(to_string(address) + scope);
  }
  return texts;
}

}  // namespace

TEST_CASE("addresses of a rank survive the exchange", "[tcp][endpoints]") {
  const Endpoints e = endpoints(7, {"127.0.0.1", "10.0.0.2", "fe80::1", "2001:db8::7", "::1"});
  const Endpoints d = tutti::transport::tcp::decode(encode(e), 3);
  CHECK(d.network == e.network);
  CHECK(d.port == e.port);
  CHECK(d.addresses == e.addresses);
  CHECK(tutti::transport::tcp::decode({}, 3).addresses.empty());
}

TEST_CASE("malformed addresses name the rank and crash nothing", "[tcp][endpoints]") {
  const Blob good = encode(endpoints(7, {"127.0.0.1", "10.0.0.2"}));
  for (std::size_t bytes = 1; bytes < good.size(); ++bytes)
    CHECK(contains(error_of([&] {
                     tutti::transport::tcp::decode(
                         Blob(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)), 3);
                   }),
                   "rank 3"));
  Blob longer = good;
  longer.push_back(std::byte{0});
  CHECK(contains(error_of([&] { tutti::transport::tcp::decode(longer, 3); }), "rank 3"));
  for (int round = 0; round < 2000; ++round) {
    Blob random(static_cast<std::size_t>(1 + round % 90));
    randombytes_buf(random.data(), random.size());
    error_of([&] { tutti::transport::tcp::decode(random, 3); });
    Blob changed = good;
    changed[static_cast<std::size_t>(round) % changed.size()] = static_cast<std::byte>(round / 7);
    error_of([&] { tutti::transport::tcp::decode(changed, 3); });
  }
}

TEST_CASE("the most promising address is tried first", "[tcp][endpoints]") {
  const std::vector<Interface> here{interface("lo", "127.0.0.1", 8),        interface("lo", "::1", 128),
                                    interface("docker0", "172.17.0.1", 16), interface("eth0", "10.0.0.1", 24),
                                    interface("eth0", "fe80::a", 64, 2),    interface("eth1", "fe80::b", 64, 5)};
  const Endpoints peer =
      endpoints(1, {"127.0.0.1", "::1", "fe80::c", "172.17.0.1", "192.168.5.5", "10.0.0.2", "2001:db8::7"});
  using Texts = std::vector<std::string>;
  CHECK(order(peer, 1, here) ==
        Texts{"127.0.0.1", "::1", "10.0.0.2", "192.168.5.5", "2001:db8::7", "172.17.0.1", "fe80::c%2", "fe80::c%5"});
  CHECK(order(peer, 2, here) ==
        Texts{"10.0.0.2", "192.168.5.5", "2001:db8::7", "172.17.0.1", "fe80::c%2", "fe80::c%5"});
  CHECK(order(endpoints(1, {}), 1, here).empty());
}

TEST_CASE("ranks meet over IPv6 alone", "[tcp][endpoints]") {
  const auto interfaces = tutti::base::interfaces();
  const bool has_v6 = std::any_of(interfaces.begin(), interfaces.end(),
                                  [](const Interface& i) { return i.address == *parse_address("::1"); });
  if (!has_v6) {
    WARN("skipped: this host has no ::1");
    return;
  }
  Group group;
  std::vector<Blob> addresses;
  for (int rank = 0; rank < 2; ++rank) {
    group.push_back(make_tcp_transport(options(rank, 2)));
    Endpoints e = tutti::transport::tcp::decode(group.back()->address(), rank);
    e.addresses = {*parse_address("::1")};
    addresses.push_back(encode(e));
  }
  for (const auto& transport : group) transport->set_peers(addresses);
  Stream stream(group, 1, 0, {1}, {1, 2, 4096});
  until([&] {
    stream.writer.write();
    progress(group);
    stream.readers[0].read();
    return stream.readers[0].taken() == 100;
  });
}

TEST_CASE("wrong addresses are survived, for the handshake tells who answers", "[tcp][endpoints]") {
  Group group = make_group(3);
  std::vector<Blob> addresses;
  for (int rank = 0; rank < 3; ++rank) addresses.push_back(group[static_cast<std::size_t>(rank)]->address());
  // First an address where nobody listens, then one where another rank does: the ports come from the wrong blobs.
  Endpoints mixed = tutti::transport::tcp::decode(addresses[2], 2);
  const std::uint16_t right = mixed.port;
  const std::uint16_t wrong = tutti::transport::tcp::decode(addresses[0], 0).port;
  CHECK(right != wrong);
  TcpOptions quick = options(1, 3);
  quick.connect_timeout = milliseconds(300);
  const auto one = make_tcp_transport(quick);
  mixed.port = wrong;
  one->set_peers({addresses[0], addresses[1], encode(mixed)});
  std::atomic<bool> done = false;
  std::optional<std::string> reason;
  run_ranks(2, [&](int which) {
    if (which == 0) {
      reason = one->unreachable(2);
      done = true;
    } else {
      until([&] {
        group[0]->progress();
        return done.load();
      });
    }
  });
  REQUIRE(reason);
  INFO(*reason);
  CHECK(contains(*reason, "rank 1 cannot reach rank 2"));
  CHECK(contains(*reason, "127.0.0.1:" + std::to_string(wrong)));
  CHECK(contains(*reason, "another job, another rank or another secret"));
}

TEST_CASE("the interface filter is obeyed and refused by name", "[tcp][endpoints]") {
  TcpOptions o = options(0, 2);
  o.interfaces = "=lo";
  const Endpoints e = tutti::transport::tcp::decode(make_tcp_transport(o)->address(), 0);
  REQUIRE_FALSE(e.addresses.empty());
  for (const Address& address : e.addresses) CHECK(address.loopback());
  o.interfaces = "nosuch";
  const std::string message = error_of([&] { make_tcp_transport(o); });
  CHECK(contains(message, "'nosuch'"));
  CHECK(contains(message, "lo (127.0.0.1)"));
}
