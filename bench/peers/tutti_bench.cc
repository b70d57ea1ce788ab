// Tutti's all-reduce under the harness; one process per rank, started by `tutti run`.
#include <cstdio>
#include <exception>
#include <sstream>

#include "bench/peers/harness.h"
#include "tutti/communicator.h"

namespace {

// What the planner chose, for the report: "twoshot, predicted 12.3 us; next ring 20.1 us".
std::string plan_of(const tutti::Communicator& world, std::size_t count) {
  const tutti::PlanInfo plan = world.explain(tutti::Collective::all_reduce, count, tutti::DataType::float32);
  std::ostringstream text;
  text.precision(3);
  text << plan.algorithm << ", predicted " << plan.predicted_us << " us";
  if (!plan.runner_up.empty()) text << "; next " << plan.runner_up << ' ' << plan.runner_up_us << " us";
  return text.str();
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace tutti::peers;
  const Settings settings = Settings::from_arguments(argc, argv);
  tutti::Communicator world = tutti::Communicator::connect();
  ControlPage page(settings.page, world.rank(), world.size());
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [&world, input, output, count] { world.all_reduce(input, output, count, tutti::DataType::float32); };
  };
  measure_sizes(settings, page, "default", Placement::out_of_place, prepare,
                [&](std::size_t count) { return plan_of(world, count); });
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutti_bench: %s\n", error.what());
  return 1;
}
