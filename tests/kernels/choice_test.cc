// Which table is chosen, and how TUTTI_KERNELS changes that.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "kernels/host/kernels.h"
#include "tutti/error.h"

using namespace tutti;

namespace {

// Sets the variable for a scope; the tests run in one thread.
class Setting {
 public:
  explicit Setting(const std::string& value) { setenv("TUTTI_KERNELS", value.c_str(), 1); }
  ~Setting() { unsetenv("TUTTI_KERNELS"); }
};

}  // namespace

TEST_CASE("without a setting the best table is chosen") {
  unsetenv("TUTTI_KERNELS");
  CHECK(&kernels::host_kernels() == kernels::available_host_kernels().front());
  CHECK(kernels::available_host_kernels().back()->name == "plain");
}

TEST_CASE("TUTTI_KERNELS names a table") {
  for (const runtime::Kernels* table : kernels::available_host_kernels()) {
    const Setting setting{std::string(table->name)};
    CHECK(&kernels::host_kernels() == table);
  }
}

TEST_CASE("a table that is unknown or unavailable is an error that lists the valid ones") {
  for (const std::string name : {"sse9", "avx512", "neon"}) {
    const auto tables = kernels::available_host_kernels();
    bool available = false;
    for (const runtime::Kernels* table : tables) available |= table->name == name;
    if (available) continue;
    const Setting setting(name);
    try {
      kernels::host_kernels();
      FAIL(name << " was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      const std::string text = error.what();
      CHECK(text.find("TUTTI_KERNELS is '" + name + "'") != std::string::npos);
      for (const runtime::Kernels* table : tables) CHECK(text.find(table->name) != std::string::npos);
    }
  }
}
