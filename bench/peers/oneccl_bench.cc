// oneCCL's all-reduce under the harness, on the CPU, over libfabric. One process per rank, started by run.py with RANK
// and WORLD_SIZE in the environment and oneCCL's own variables that choose the transport and leave out its worker
// thread. What is timed: the call and its completion. Where ranks share cores the caller tests and gives its core away
// instead of calling wait(), which spins: a call takes time slices of the scheduler otherwise.
#include <sched.h>

#include <cstdio>
#include <exception>
#include <oneapi/ccl.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peers/harness.h"

namespace {

// Rank 0 opens oneCCL's key-value store, the others learn its address.
ccl::shared_ptr_class<ccl::kvs> shared_store(tutti::peers::ControlPage& page) {
  ccl::kvs::address_type mine{};
  ccl::shared_ptr_class<ccl::kvs> store;
  if (page.rank() == 0) {
    store = ccl::create_main_kvs();
    mine = store->get_address();
  }
  std::vector<ccl::kvs::address_type> all(static_cast<std::size_t>(page.ranks()));
  page.all_gather(mine.data(), sizeof mine, all.data());
  return page.rank() == 0 ? store : ccl::create_kvs(all.front());
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace tutti::peers;
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    const ccl::library_version version = ccl::get_library_version();
    std::printf("%u.%u.%u\n", version.major, version.minor, version.update);
    return 0;
  }
  const Settings settings = Settings::from_arguments(argc, argv);
  const int rank = std::stoi(variable("RANK"));
  if (settings.bind) bind_to_cpu(rank);
  ControlPage page(settings.page, rank, std::stoi(variable("WORLD_SIZE")));
  ccl::init();
  const ccl::shared_ptr_class<ccl::kvs> store = shared_store(page);
  const ccl::communicator communicator = ccl::create_communicator(page.ranks(), rank, store);
  const bool yields = ranks_share_cores(page.ranks());
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [&communicator, yields, input, output, count] {
      ccl::event event = ccl::allreduce(input, output, count, ccl::reduction::sum, communicator);
      if (!yields) return event.wait();
      while (!event.test()) sched_yield();  // run.py ends a launch that hangs
    };
  };
  measure_sizes(settings, page, "default", Placement::out_of_place, prepare, [](std::size_t) { return std::string(); });
  page.barrier();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "oneccl_bench: %s\n", error.what());
  return 1;
}
