// Least squares with Tutti's Ddp and nothing else: finds y = 3 x - 1 from samples that the ranks share.
// Run it with:  tutti run -n 4 -- ./mlp_minimal
#include <cmath>
#include <cstdio>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/ddp.h"

int main() try {
  tutti::Communicator world = tutti::Communicator::connect();  // rank and size from the launcher

  float slope = static_cast<float>(world.rank()), offset = 0;  // rank 0's values win
  float slope_gradient = 0, offset_gradient = 0;
  tutti::Ddp ddp(world, {{"slope", &slope, &slope_gradient, {}}, {"offset", &offset, &offset_gradient, {}}});

  const std::size_t kSamples = 101, kGlobalBatch = 20;
  const tutti::DistributedSampler sampler(kSamples, world.size(), world.rank(),
                                          {.seed = 1, .tail = tutti::DistributedSampler::Tail::uneven});
  for (std::uint64_t epoch = 0; epoch < 60; ++epoch)
    for (const std::vector<std::size_t>& batch : sampler.batches(epoch, kGlobalBatch)) {
      ddp.begin_backward(batch.size());  // may be 0: the last batch has one sample
      slope_gradient = offset_gradient = 0;
      for (const std::size_t i : batch) {
        const float x = static_cast<float>(i) / 50.0f - 1.0f, y = 3.0f * x - 1.0f;
        const float error = slope * x + offset - y;
        slope_gradient += 2 * error * x / static_cast<float>(batch.size());
        offset_gradient += 2 * error / static_cast<float>(batch.size());
      }
      ddp.gradient_ready("offset");
      ddp.gradient_ready("slope");
      ddp.finish();  // both gradients now are the mean over the samples of all ranks
      slope -= 0.2f * slope_gradient;
      offset -= 0.2f * offset_gradient;
    }
  ddp.assert_in_sync();
  if (world.rank() == 0) std::printf("y = %.3f x %+.3f\n", slope, offset);
  return std::abs(slope - 3) < 1e-3f && std::abs(offset + 1) < 1e-3f ? 0 : 1;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
