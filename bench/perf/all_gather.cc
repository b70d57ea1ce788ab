// all_gather_perf: every rank gets the `count` elements of each.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class AllGather final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "all_gather"; }
  std::optional<Collective> collective() const override { return Collective::all_gather; }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks);
    return {block, block, block * place.all(), block * place.all(), block * place.own()};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    std::vector<Expected> blocks;
    for (int r = 0; r < place.ranks; ++r) blocks.push_back({count * blocks.size(), count, r, 0});
    return blocks;
  }
  // Of the n blocks of the size each rank has one already.
  double bus_factor(int ranks) const override { return (ranks - 1.0) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, AllGather()); }
