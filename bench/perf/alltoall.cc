// alltoall_perf: every rank gives each of them a block of `count` elements.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class AllToAll final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "alltoall"; }
  std::optional<Collective> collective() const override { return Collective::all_to_all; }
  bool in_place() const override { return false; }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks), all = block * place.all();
    return {block, all, all, all};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    std::vector<Expected> blocks;
    for (int r = 0; r < place.ranks; ++r) blocks.push_back({count * blocks.size(), count, r, count * place.own()});
    return blocks;
  }
  // One of a rank's n blocks stays with it.
  double bus_factor(int ranks) const override { return (ranks - 1.0) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, AllToAll()); }
