// all_reduce_perf: every rank gives `count` elements and gets the reduction of all.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class AllReduce final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "all_reduce"; }
  std::optional<Collective> collective() const override { return Collective::all_reduce; }
  bool reduces() const override { return true; }
  Shape shape(std::size_t size, std::size_t, const Place&) const override { return {size, size, size, size}; }
  std::vector<Expected> expected(std::size_t count, const Place&) const override {
    return {{0, count, Expected::kReduced, 0}};
  }
  // Each rank must send and receive (n-1)/n of the data to reduce it, and as much again to spread it.
  double bus_factor(int ranks) const override { return 2.0 * (ranks - 1) / ranks; }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, AllReduce()); }
