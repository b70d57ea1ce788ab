#include <catch2/catch.hpp>

#include "src/base/address.h"
#include "tutti/error.h"

using tutti::base::Address;
using tutti::base::filter_interfaces;
using tutti::base::Interface;
using tutti::base::parse_address;
using tutti::base::to_string;

TEST_CASE("addresses are read and written", "[tcp][address]") {
  for (const char* text : {"10.0.0.2", "10.0.0.2:41000", "::1", "[::1]:80", "fe80::1%lo", "[fe80::1%lo]:65535",
                           "2001:db8::7", "[2001:db8::7]:1"}) {
    CAPTURE(text);
    const auto address = parse_address(text);
    REQUIRE(address);
    CHECK(to_string(*address) == text);
  }
  CHECK(to_string(*parse_address("[::ffff:10.1.2.3]:5")) == "10.1.2.3:5");
  for (const char* text :
       {"", "10.0.0", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:65536", "10.0.0.2:1x", "[::1]", "[::1]:", "::1]:80",
        "host:80", "10.0.0.2%lo", "fe80::1%nosuchinterface", "[10.0.0.2]:80", "-1.0.0.1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_address(text));
  }
}

TEST_CASE("addresses know their kind", "[tcp][address]") {
  CHECK(parse_address("127.3.0.1")->loopback());
  CHECK(parse_address("::1")->loopback());
  CHECK_FALSE(parse_address("128.0.0.1")->loopback());
  CHECK(parse_address("169.254.1.1")->link_local());
  CHECK(parse_address("fe80::5")->link_local());
  CHECK_FALSE(parse_address("fec0::5")->link_local());
  const Address address = *parse_address("10.1.2.3");
  CHECK(address.same_subnet(*parse_address("10.1.2.200"), 24));
  CHECK_FALSE(address.same_subnet(*parse_address("10.1.3.3"), 24));
  CHECK(address.same_subnet(*parse_address("10.1.3.3"), 23));
  CHECK_FALSE(address.same_subnet(*parse_address("10.1.4.3"), 23));
  CHECK_FALSE(address.same_subnet(*parse_address("10.1.2.3"), 0));
  CHECK(parse_address("2001:db8::1")->same_subnet(*parse_address("2001:db8::ffff"), 64));
  CHECK_FALSE(parse_address("2001:db8::1")->same_subnet(*parse_address("2001:db9::1"), 32));
}

TEST_CASE("interfaces are filtered with NCCL's grammar", "[tcp][address]") {
  std::vector<Interface> all;
  for (const char* name : {"lo", "eth0", "eth1", "eth10", "docker0", "ib0"}) all.push_back({name, {}, 0});
  const auto names = [&](const char* filter) {
    std::string list;
    for (const Interface& interface : filter_interfaces("TUTTI_SOCKET_IFNAME", filter, all))
      list += interface.name + " ";
    return list;
  };
  CHECK(names("eth") == "eth0 eth1 eth10 ");
  CHECK(names("eth1,ib") == "eth1 eth10 ib0 ");
  CHECK(names("=eth1") == "eth1 ");
  CHECK(names("=eth1,eth0") == "eth0 eth1 ");
  CHECK(names("^docker,lo") == "eth0 eth1 eth10 ib0 ");
  CHECK(names("^=eth1") == "lo eth0 eth10 docker0 ib0 ");
  for (const char* filter :
       {"", "^", "=", "eth0,", ",eth0", "=^eth0", "wlan", "=eth", "^lo,eth,docker,ib", "eth 0", "eth0:1"}) {
    CAPTURE(filter);
    try {
      names(filter);
      FAIL_CHECK("the filter was taken");
    } catch (const tutti::Error& error) {
      const std::string message = error.what();
      CHECK(error.code() == tutti::ErrorCode::invalid_argument);
      CHECK(message.find("TUTTI_SOCKET_IFNAME is '" + std::string(filter) + "'") != std::string::npos);
      CHECK(message.find("docker0") != std::string::npos);
    }
  }
}
