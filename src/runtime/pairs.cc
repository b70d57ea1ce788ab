#include "src/runtime/pairs.h"

#include <algorithm>
#include <string>

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

constexpr std::size_t kShare = 8;  // one part in so many of the limit is for pairs
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kMostSlotBytes = 64 << 10;

// Payload bytes of each of `slots` slots of a ring of at most `bytes`.
constexpr std::size_t slot_bytes(std::size_t bytes, std::uint32_t slots) {
  return ((bytes - sizeof(ReaderLine)) / slots - sizeof(SlotHeader)) / 64 * 64;
}

}  // namespace

// Four slots keep both ends busy; two, where four would be small.
std::optional<RingGeometry> pair_geometry(int ranks, std::size_t limit) {
  if (ranks < 2) return std::nullopt;
  const std::size_t bytes = limit / kShare / static_cast<std::size_t>(ranks - 1) / kPage * kPage;
  if (bytes == 0) return std::nullopt;
  const std::uint32_t slots = slot_bytes(bytes, 4) >= kPage ? 4 : 2;
  return RingGeometry{1, slots,
                      static_cast<std::uint32_t>(std::min<std::size_t>(slot_bytes(bytes, slots), kMostSlotBytes))};
}

std::size_t pair_memory(int ranks, std::size_t limit) {
  const auto geometry = pair_geometry(ranks, limit);
  return geometry ? static_cast<std::size_t>(ranks - 1) * arena_bytes(*geometry) : 0;
}

Pairs::Pairs(int rank, int ranks, std::size_t limit, Connections& connections)
    : rank_(rank), ranks_(ranks), limit_(limit), geometry_(pair_geometry(ranks, limit)), connections_(connections) {}

void Pairs::check() const {
  if (geometry_) return;
  const std::size_t needed = static_cast<std::size_t>(ranks_ - 1) * kPage * kShare;
  throw Error(ErrorCode::invalid_argument,
              "TUTTI_BUFFER_LIMIT is " + std::to_string(limit_) + " bytes, too few for messages between pairs of " +
                  std::to_string(ranks_) + " ranks (these get an eighth); it must be at least " +
                  base::format_bytes(needed) + " (the default is 64 MiB)");
}

PortEnd Pairs::port(int from, int to) const {
  PortEnd end;
  end.id = kLastingPort | std::uint64_t(static_cast<std::uint32_t>(from)) << 24 | static_cast<std::uint32_t>(to);
  end.writer = from;
  end.readers = {to};
  end.geometry = *geometry_;
  return end;
}

void Pairs::open_send(int peer) { with(peer).send = &connections_.writing(port(rank_, peer)); }

void Pairs::open_receive(int peer) { with(peer).receive = connections_.reading(port(peer, rank_)); }

}  // namespace tutti::runtime
