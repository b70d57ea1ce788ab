#include "src/base/variables.h"

#include <catch2/catch.hpp>

using namespace tutti::base;

TEST_CASE("a variable that is none of the library's is named with the nearest one that is") {
  const auto complaint = [](const char* entry) {
    const char* const environment[] = {"PATH=/bin", entry, "TUTTI_ALGO=ring", nullptr};
    const auto all = complaints_about_variables(environment);
    return all.size() == 1 ? all.front() : std::to_string(all.size()) + " complaints";
  };
  const std::pair<const char*, const char*> cases[] = {{"TUTTI_ALOG=ring", "TUTTI_ALGO"},
                                                       {"TUTTI_ALGORITHM=ring", "TUTTI_ALGO"},
                                                       {"TUTTI_TIMEOUTS=3", "TUTTI_TIMEOUT"},
                                                       {"TUTTI_BUFER_LIMIT=3", "TUTTI_BUFFER_LIMIT"},
                                                       {"TUTTI_SOCKET_IF_NAME=eth0", "TUTTI_SOCKET_IFNAME"},
                                                       {"TUTTI_Transport=tcp", "TUTTI_TRANSPORT"},
                                                       {"TUTTI_", "TUTTI_JOB"}};
  for (const auto& [entry, nearest] : cases) {
    const std::string name = std::string(entry).substr(0, std::string(entry).find('='));
    CHECK(complaint(entry) ==
          "the environment variable " + name + " is none of this library's; did you mean " + nearest + "?");
  }
  CHECK(complaint("NCCL_ALGO=ring") == "0 complaints");
  CHECK(complaint("TUTTI_SSH=rsh") == "0 complaints");
  CHECK(complaint(("TUTTI_" + std::string(100'000, 'A')).c_str()).size() < 300);
  CHECK(complaints_about_variables(nullptr).empty());
  for (const std::string_view name : kVariables) CHECK(complaint(std::string(name).c_str()) == "0 complaints");
}
