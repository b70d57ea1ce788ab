// Sums a vector over all ranks. Try it:  tutti run -n 4 -- all_reduce
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "tutti/communicator.h"

int main() try {
  tutti::Communicator world = tutti::Communicator::connect();  // rank and size come from the launcher
  std::vector<float> gradients(1000);
  std::iota(gradients.begin(), gradients.end(), static_cast<float>(world.rank()));
  world.all_reduce(std::span(gradients), tutti::ReduceOp::avg);
  std::printf("rank %d of %d: mean of element 10 is %g\n", world.rank(), world.size(), gradients[10]);
  return 0;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
