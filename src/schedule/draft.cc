#include "src/schedule/draft.h"

#include <numeric>
#include <string>

#include "src/schedule/collectives.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

constexpr int kMaxLanes = 64;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, "Schedule: " + what); }

void check_order(const std::vector<int>& order, int ranks) {
  if (order.size() != static_cast<std::size_t>(ranks))
    refuse("the order lists " + std::to_string(order.size()) + " ranks, but there are " + std::to_string(ranks) + ".");
  std::vector<bool> seen(order.size());
  for (int rank : order) {
    if (rank < 0 || rank >= ranks)
      refuse("the order names rank " + std::to_string(rank) + "; valid ranks are 0 to " + std::to_string(ranks - 1) +
             ".");
    if (seen[static_cast<std::size_t>(rank)]) refuse("the order names rank " + std::to_string(rank) + " twice.");
    seen[static_cast<std::size_t>(rank)] = true;
  }
}

}  // namespace

Draft::Draft(std::string_view name, Collective collective, const Shape& shape, int chunks) : order_(shape.order) {
  if (shape.ranks < 1) refuse("the number of ranks is " + std::to_string(shape.ranks) + "; it must be at least 1.");
  if (shape.lanes < 1 || shape.lanes > kMaxLanes)
    refuse("the number of lanes is " + std::to_string(shape.lanes) + "; valid are 1 to " + std::to_string(kMaxLanes) +
           ".");
  if (shape.root < 0 || shape.root >= shape.ranks)
    refuse("the root is " + std::to_string(shape.root) + "; valid ranks are 0 to " + std::to_string(shape.ranks - 1) +
           ".");
  if (order_.empty()) {
    order_.resize(static_cast<std::size_t>(shape.ranks));
    std::iota(order_.begin(), order_.end(), 0);
  }
  check_order(order_, shape.ranks);
  schedule_.name = name;
  schedule_.direct = true;  // of most algorithms; the others' builders say so
  schedule_.collective = collective;
  schedule_.ranks = shape.ranks;
  schedule_.root = traits_of(collective).rooted() ? shape.root : 0;
  schedule_.input_blocks = input_blocks(collective, shape.ranks);
  schedule_.output_blocks = output_blocks(collective, shape.ranks);
  schedule_.input_chunks = chunks * schedule_.input_blocks;
  schedule_.output_chunks = chunks * schedule_.output_blocks;
  schedule_.programs.resize(static_cast<std::size_t>(shape.ranks));
}

int Draft::port(int writer, std::vector<int> readers, int channel, bool acknowledged) {
  schedule_.ports.push_back({writer, std::move(readers), channel, acknowledged});
  return ports() - 1;
}

int Draft::ports_to_all(int channel) {
  const int first = ports();
  for (int rank = 0; rank < ranks(); ++rank) port(rank, all_but(ranks(), rank), channel, false);
  return first;
}

Schedule Draft::finish() && {
  derive_scaling(schedule_);
  return std::move(schedule_);
}

RingLane::RingLane(Draft& draft, int lane) : draft_(draft), backwards_(lane % 2 != 0), first_port_(draft.ports()) {
  for (int p = 0; p < draft.ranks(); ++p) draft.port(rank_at(p), {rank_at(p + 1)}, lane);
}

std::vector<int> all_but(int ranks, int rank) {
  std::vector<int> others;
  for (int other = 0; other < ranks; ++other)
    if (other != rank) others.push_back(other);
  return others;
}

Schedule build_copy(std::string_view name, Collective collective, const Shape& shape) {
  Draft draft(name, collective, shape, 1);
  if (collective != Collective::barrier) draft.lane(0, {{.in = {input(0)}, .out = {output(0)}}});
  return std::move(draft).finish();
}

}  // namespace tutti::schedule
