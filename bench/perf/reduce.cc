// reduce_perf: every rank gives `count` elements, the root gets the reduction of all.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class Reduce final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "reduce"; }
  std::optional<Collective> collective() const override { return Collective::reduce; }
  bool reduces() const override { return true; }
  bool rooted() const override { return true; }
  Shape shape(std::size_t size, std::size_t, const Place& place) const override {
    return {size, size, place.rank == place.root ? size : 0, size};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    if (place.rank != place.root) return {};
    return {{0, count, Expected::kReduced, 0}};
  }
  double bus_factor(int) const override { return 1; }  // every rank sends its data once, or what it reduced with it
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, Reduce()); }
