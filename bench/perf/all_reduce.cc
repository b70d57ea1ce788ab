// all_reduce_perf: every rank gives `count` elements and gets the reduction of all.
#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class AllReduce final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "all_reduce"; }
  Collective collective() const override { return Collective::all_reduce; }
  bool reduces() const override { return true; }
  bool rooted() const override { return false; }
  Shape shape(std::size_t count, int, int) const override { return {count, count, count, count, 0}; }
  // Each rank must send and receive (n-1)/n of the data to reduce it, and as much again to spread it.
  double bus_factor(int ranks) const override { return 2.0 * (ranks - 1) / ranks; }
  void run(Peer& peer, const Call& call) const override {
    peer.all_reduce(call.input, call.output, call.count, call.type, call.op);
  }
  void start(Peer& peer, const Call& call) const override {
    peer.start_all_reduce(call.input, call.output, call.count, call.type, call.op);
  }
  Mismatch check_output(const Pattern& pattern, int, const void* output, std::size_t count) const override {
    return check_reduced(pattern, output, count);
  }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, AllReduce()); }
