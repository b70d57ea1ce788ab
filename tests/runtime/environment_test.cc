// What the library makes of its environment variables, as docs/design.md has it in a table.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"

using namespace tutti;

namespace {

// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// What connecting threads says; empty when all goes well.
std::string error_of_connecting(int ranks) {
  try {
    Communicator::connect_threads(ranks);
    return {};
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
}

const std::vector<std::string> kNonsense{"-1",  "-0",  "+1",  "abc", "1e9", "0x10",  "10s ",
                                         " 10", "1 s", "1,5", "nan", "inf", "1e400", std::string(400, '9')};

}  // namespace

TEST_CASE("timeouts: durations from a millisecond to a thousand hours, nothing else") {
  const char* name = GENERATE("TUTTI_TIMEOUT", "TUTTI_INIT_TIMEOUT");
  const auto read = [name] {
    const Config config = Config::from_environment();
    return (std::string(name) == "TUTTI_TIMEOUT" ? config.timeout : config.init_timeout).count();
  };
  const std::pair<const char*, long> good[] = {{"", std::string(name) == "TUTTI_TIMEOUT" ? 600'000 : 300'000},
                                               {"1ms", 1},
                                               {"10", 10'000},
                                               {"0.5", 500},
                                               {"90S", 90'000},
                                               {"2m", 120'000},
                                               {"1.5min", 90'000},
                                               {"1000h", 3'600'000'000}};
  for (const auto& [text, milliseconds] : good) {
    INFO(name << "=" << text);
    const Variable set(name, text);
    CHECK(read() == milliseconds);
  }
  std::vector<std::string> bad = kNonsense;
  bad.insert(bad.end(), {"0", "0s", "0.0001ms", "1001h", "5 parsecs"});
  for (const std::string& text : bad) {
    const Variable set(name, text);
    INFO(name << "=" << text);
    CHECK_THROWS_WITH(read(), Catch::Contains(name + std::string(" is '") + text + "'") &&
                                  Catch::Contains("valid: a duration") && Catch::Contains("1000h"));
  }
  Config config;
  for (const int value : {0, -1}) {
    config.timeout = std::chrono::milliseconds(value);
    CHECK_THROWS_WITH(Communicator::connect_threads(1, config),
                      Catch::Contains("Config::timeout) is " + std::to_string(value) + " ms; valid: 1 ms to 1000 h"));
  }
}

TEST_CASE("the buffer limit: a size above 0") {
  const char* name = "TUTTI_BUFFER_LIMIT";
  const std::pair<const char*, std::size_t> good[] = {
      {"", 64u << 20}, {"1", 1}, {"1.5M", 3u << 19}, {"64mib", 64u << 20}, {"1T", std::size_t{1} << 40}};
  for (const auto& [text, bytes] : good) {
    const Variable set(name, text);
    INFO(text);
    CHECK(Config::from_environment().buffer_limit == bytes);
  }
  std::vector<std::string> bad = kNonsense;
  bad.insert(bad.end(), {"0", "0M", "2T", "0.3", "64X"});
  for (const std::string& text : bad) {
    const Variable set(name, text);
    INFO(text);
    CHECK_THROWS_WITH(Config::from_environment(),
                      Catch::Contains("TUTTI_BUFFER_LIMIT is '" + text + "'") && Catch::Contains("valid: "));
  }
  Config config;
  config.buffer_limit = 0;
  CHECK_THROWS_WITH(Communicator::connect_threads(1, config),
                    Catch::Contains("Config::buffer_limit) is 0 bytes; valid"));
}

TEST_CASE("names: what is none ends connecting, with the valid ones") {
  const int ranks = GENERATE(1, 2);
  const std::pair<const char*, const char*> variables[] = {
      {"TUTTI_ALGO", "ring"}, {"TUTTI_TRANSPORT", "shm"}, {"TUTTI_KERNELS", "plain"}, {"TUTTI_LOG", "info"}};
  for (const auto& [name, one] : variables)
    for (const std::string& bad : {std::string("0"), std::string("-1"), std::string("rnig"), one + std::string("x")}) {
      INFO(name << "=" << bad);
      const Variable set(name, bad);
      CHECK_THAT(error_of_connecting(ranks), Catch::StartsWith("invalid argument: ") && Catch::Contains(name) &&
                                                 Catch::Contains("'" + bad + "'") && Catch::Contains("valid: ") &&
                                                 Catch::Contains(one));
    }
}

TEST_CASE("an interface that does not exist is refused at connect, although no TCP is used") {
  const int ranks = GENERATE(1, 2);
  for (const std::string bad : {"nosuch0", "=nosuch0", "nosuch0,nosuch1", "^", "=", "lo eth0"}) {
    INFO(bad);
    const Variable set("TUTTI_SOCKET_IFNAME", bad);
    CHECK_THAT(error_of_connecting(ranks),
               Catch::StartsWith("invalid argument: ") && Catch::Contains("TUTTI_SOCKET_IFNAME is '" + bad + "'") &&
                   Catch::Contains("interfaces here: ") && Catch::Contains("lo (127.0.0.1)"));
  }
  for (const std::string good : {"", "lo", "=lo", "nosuch0,lo", "^nosuch0"}) {
    INFO(good);
    const Variable set("TUTTI_SOCKET_IFNAME", good);
    CHECK(error_of_connecting(ranks).empty());
  }
}
