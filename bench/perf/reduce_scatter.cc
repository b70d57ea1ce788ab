// reduce_scatter_perf: every rank gets its block of `count` elements of the reduction of all.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class ReduceScatter final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "reduce_scatter"; }
  std::optional<Collective> collective() const override { return Collective::reduce_scatter; }
  bool reduces() const override { return true; }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks);
    return {block, block * place.all(), block, block * place.all(), 0, block * place.own()};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    return {{0, count, Expected::kReduced, count * place.own()}};
  }
  // Of the n blocks of the size each rank has one already.
  double bus_factor(int ranks) const override { return (ranks - 1.0) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, ReduceScatter()); }
