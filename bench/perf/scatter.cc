// scatter_perf: every rank gets its block of `count` elements of the root.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class Scatter final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "scatter"; }
  std::optional<Collective> collective() const override { return Collective::scatter; }
  bool rooted() const override { return true; }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks), all = block * place.all();
    if (place.rank != place.root) return {block, 0, block, all};
    return {block, all, block, all, 0, block * place.own()};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    return {{0, count, place.root, count * place.own()}};
  }
  // One of the n blocks is the root's own.
  double bus_factor(int ranks) const override { return (ranks - 1.0) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, Scatter()); }
