// Sums and trains a little with an installed Tutti, on two ranks as threads; prints "ok".
#include <cstdio>
#include <span>
#include <thread>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/ddp.h"

namespace {

bool works(tutti::Communicator& world) {
  std::vector<int> values(100, world.rank() + 1);
  world.all_reduce(std::span(values));
  float weight = static_cast<float>(world.rank()), gradient = 0;
  tutti::Ddp ddp(world, {{"weight", &weight, &gradient, {}}});
  ddp.begin_backward(1);
  gradient = 2.0f * static_cast<float>(world.rank());
  ddp.gradient_ready("weight");
  ddp.finish();
  return values == std::vector<int>(100, 3) && weight == 0 && gradient == 1;
}

}  // namespace

int main() {
  std::vector<tutti::Communicator> ranks = tutti::Communicator::connect_threads(2);
  bool other_works = false;
  std::thread other([&] { other_works = works(ranks[1]); });
  const bool this_works = works(ranks[0]);
  other.join();
  std::puts(this_works && other_works ? "ok" : "wrong");
  return this_works && other_works ? 0 : 1;
}
