// sendrecv_perf: every rank sends `count` elements to the next rank and gets those of the one before.
#include <array>

#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class SendReceive final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "sendrecv"; }
  std::optional<Collective> collective() const override { return std::nullopt; }
  bool in_place() const override { return false; }
  Shape shape(std::size_t size, std::size_t, const Place&) const override { return {size, size, size, size}; }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    return {{0, count, (place.rank + place.ranks - 1) % place.ranks, 0}};
  }
  double bus_factor(int) const override { return 1; }
  void run(Peer& peer, const CollectiveCall& call) const override { peer.exchange(transfers(peer, call)); }
  void start(Peer& peer, const CollectiveCall& call) const override { peer.start_exchange(transfers(peer, call)); }

 private:
  static std::array<Transfer, 2> transfers(const Peer& peer, const CollectiveCall& call) {
    const int next = (peer.rank() + 1) % peer.size(), before = (peer.rank() + peer.size() - 1) % peer.size();
    return {Transfer{Transfer::Direction::send, const_cast<void*>(call.input), call.count, call.type, next},
            Transfer{Transfer::Direction::receive, call.output, call.count, call.type, before}};
  }
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, SendReceive()); }
