// hypercube_perf: an all-gather by exchanges with the neighbours of a hypercube: in step k with the rank that differs
// in bit k, of twice as many blocks each time.
#include <array>
#include <bit>
#include <cstring>

#include "bench/perf/collective.h"

namespace {

using namespace tutti;
using namespace tutti::perf;

class Hypercube final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "hypercube"; }
  std::optional<Collective> collective() const override { return std::nullopt; }
  std::string refusal(int ranks) const override {
    if (std::has_single_bit(static_cast<unsigned>(ranks))) return {};
    return "there are " + std::to_string(ranks) + " ranks; valid: powers of two";
  }
  Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const override {
    const std::size_t block = block_of(size, element_bytes, place.ranks);
    // algbw counts what a rank sends and receives.
    return {block, block, block * place.all(), block * (place.all() - 1), block * place.own()};
  }
  std::vector<Expected> expected(std::size_t count, const Place& place) const override {
    std::vector<Expected> blocks;
    for (int r = 0; r < place.ranks; ++r) blocks.push_back({count * blocks.size(), count, r, 0});
    return blocks;
  }
  double bus_factor(int) const override { return 1; }
  void run(Peer& peer, const CollectiveCall& call) const override {
    const std::size_t bytes = call.count * size_of(call.type);
    auto* const output = static_cast<std::byte*>(call.output);
    const auto block = [&](int rank) { return output + static_cast<std::size_t>(rank) * bytes; };
    if (bytes != 0 && block(peer.rank()) != call.input) std::memcpy(block(peer.rank()), call.input, bytes);
    for (int bit = 1; bit < peer.size(); bit *= 2) {
      const int other = peer.rank() ^ bit;
      const auto group = [bit](int rank) { return rank & ~(bit - 1); };  // the first of those whose blocks it has
      const std::size_t count = call.count * static_cast<std::size_t>(bit);
      peer.exchange(std::array{Transfer{Transfer::Direction::send, block(group(peer.rank())), count, call.type, other},
                               Transfer{Transfer::Direction::receive, block(group(other)), count, call.type, other}});
    }
  }
  void start(Peer& peer, const CollectiveCall& call) const override { run(peer, call); }  // each step needs the last
};

}  // namespace

int main(int argc, char** argv) { return perf_main(argc, argv, Hypercube()); }
