// broadcast_perf: every rank gets the `count` elements of the root.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class Broadcast final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "broadcast"; }
  std::optional<Collective> collective() const override { return Collective::broadcast; }
  bool rooted() const override { return true; }
  Shape shape(std::size_t size, std::size_t, const Place&) const override { return {size, size, size, size}; }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    return {{0, count, place.root, 0}};
  }
  double bus_factor(int) const override { return 1; }  // every rank receives the data once
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, Broadcast()); }
