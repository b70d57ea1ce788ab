// Gloo's all-reduce under the harness, over its TCP transport as it comes: threads that sleep in epoll. One process per
// rank, started by run.py with RANK, WORLD_SIZE and GLOO_STORE (an empty directory) in the environment.
// Two algorithms: the ring, which is gloo::allreduce()'s default, and halving-doubling, the one of Gloo's older classes
// that is fastest for small messages, which works in place only.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/peers/harness.h"

namespace {

std::shared_ptr<gloo::Context> connect(int rank, int ranks) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(tutti::peers::variable("GLOO_STORE"));
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

std::string nothing(std::size_t) { return {}; }

}  // namespace

int main(int argc, char** argv) try {
  using namespace tutti::peers;
  const Settings settings = Settings::from_arguments(argc, argv);
  const int rank = std::stoi(variable("RANK"));
  const int ranks = std::stoi(variable("WORLD_SIZE"));
  ControlPage page(settings.page, rank, ranks);
  const std::shared_ptr<gloo::Context> context = connect(rank, ranks);

  const auto ring = [&](const float* input, float* output, std::size_t count) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context);
    options->setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options->setInput(const_cast<float*>(input), count);
    options->setOutput(output, count);
    options->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  };
  const auto halving_doubling = [&](const float*, float* data, std::size_t count) {
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error("Gloo's halving-doubling takes at most 2^31 - 1 elements");
    auto algorithm = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context, std::vector<float*>{data},
                                                                             static_cast<int>(count));
    return [algorithm] { algorithm->run(); };
  };
  measure_sizes(settings, page, "ring", Placement::out_of_place, ring, nothing);
  measure_sizes(settings, page, "halving_doubling", Placement::in_place, halving_doubling, nothing);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gloo_bench: %s\n", error.what());
  return 1;
}
