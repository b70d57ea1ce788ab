// gather_perf: the root gets the `count` elements of each rank.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class Gather final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "gather"; }
  std::optional<Collective> collective() const override { return Collective::gather; }
  bool rooted() const override { return true; }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks), all = block * place.all();
    if (place.rank != place.root) return {block, block, 0, all};
    return {block, block, all, all, block * place.own()};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    std::vector<Expected> blocks;
    for (int r = 0; r < place.ranks && place.rank == place.root; ++r)
      blocks.push_back({count * blocks.size(), count, r, 0});
    return blocks;
  }
  // One of the n blocks is the root's own.
  double bus_factor(int ranks) const override { return (ranks - 1.0) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, Gather()); }
