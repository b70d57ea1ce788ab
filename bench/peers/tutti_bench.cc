// Tutti's all-reduce under the harness: one process per rank, started by `tutti run`, on ordinary memory or with
// --memory tutti on memory of tutti::alloc, which every rank can reach; or with --ranks N as N threads of this process,
// whose memory every rank can reach anyway.
#include <cstdio>
#include <exception>
#include <sstream>
#include <thread>
#include <vector>

#include "bench/peers/harness.h"
#include "tutti/communicator.h"
#include "tutti/memory.h"

namespace {

using namespace tutti::peers;

// What the planner chose, for the report: "twoshot, predicted 12.3 us; next ring 20.1 us".
std::string plan_of(const tutti::Communicator& world, std::size_t count) {
  const tutti::PlanInfo plan = world.explain(tutti::Collective::all_reduce, count, tutti::DataType::float32);
  std::ostringstream text;
  text.precision(3);
  text << plan.algorithm << ", predicted " << plan.predicted_us << " us";
  if (!plan.runner_up.empty()) text << "; next " << plan.runner_up << ' ' << plan.runner_up_us << " us";
  return text.str();
}

class SharedBuffer {
 public:
  explicit SharedBuffer(std::size_t count) : memory_(tutti::alloc(count * sizeof(float))) {}
  float* data() const { return memory_.as<float>().data(); }

 private:
  tutti::Memory memory_;
};

void measure(const Settings& settings, tutti::Communicator& world, std::string_view memory) {
  ControlPage page(settings.page, world.rank(), world.size());
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [&world, input, output, count] { world.all_reduce(input, output, count, tutti::DataType::float32); };
  };
  const auto describe = [&](std::size_t count) { return plan_of(world, count); };
  if (settings.tutti_memory)
    measure_sizes(settings, page, memory, Placement::out_of_place, prepare, describe,
                  [](std::size_t count) { return SharedBuffer(count); });
  else
    measure_sizes(settings, page, memory, Placement::out_of_place, prepare, describe);
}

// One failed rank ends the process: the others would wait for it.
void measure_threads(const Settings& settings) {
  std::vector<tutti::Communicator> communicators = tutti::Communicator::connect_threads(settings.ranks);
  std::vector<std::thread> threads;
  for (tutti::Communicator& communicator : communicators)
    threads.emplace_back([&settings, own = std::move(communicator)]() mutable {
      try {
        if (settings.bind) bind_to_cpu(own.rank());
        measure(settings, own, settings.tutti_memory ? "threads, tutti::alloc" : "threads");
      } catch (const std::exception& error) {
        std::fprintf(stderr, "tutti_bench: rank %d: %s\n", own.rank(), error.what());
        std::_Exit(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) try {
  const Settings settings = Settings::from_arguments(argc, argv);
  if (settings.ranks > 0) {
    measure_threads(settings);
    return 0;
  }
  tutti::Communicator world = tutti::Communicator::connect();
  measure(settings, world, settings.tutti_memory ? "tutti::alloc" : "ordinary");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutti_bench: %s\n", error.what());
  return 1;
}
