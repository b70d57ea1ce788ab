// The order of an epoch, as PyTorch's randperm and DistributedSampler make it:
//   1. r = 0 .. n-1; with shuffle, for i = 0 .. n-2: swap r[i] with r[i + z], z = mt19937(seed + epoch)() mod (n - i)
//   2. pad with r from its front, or cut, to `total` positions
//   3. rank k takes positions k, k + world, k + 2 world, ...
#include <random>
#include <utility>

#include "tutti/ddp.h"

namespace tutti {
namespace {

constexpr std::size_t kShuffleLimit = 0xffffffffu / 20;

std::size_t positions(std::size_t samples, std::size_t world, DistributedSampler::Tail tail) {
  switch (tail) {
    case DistributedSampler::Tail::pad: return (samples + world - 1) / world * world;
    case DistributedSampler::Tail::drop_last: return samples / world * world;
    case DistributedSampler::Tail::uneven: return samples;
  }
  throw Error(ErrorCode::invalid_argument, "DistributedSampler: unknown tail; valid: pad, drop_last, uneven.");
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t samples, int world, int rank, Options options)
    : samples_(samples),
      total_(0),
      world_(static_cast<std::size_t>(world)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  if (world < 1 || rank < 0 || rank >= world)
    throw Error(ErrorCode::invalid_argument, "DistributedSampler: rank " + std::to_string(rank) + " of " +
                                                 std::to_string(world) + " ranks; valid ranks: 0 to ranks - 1.");
  if (samples == 0)
    throw Error(ErrorCode::invalid_argument, "DistributedSampler: the data set has no samples; at least 1 is needed.");
  if (options.tail == Tail::drop_last && samples < world_)
    throw Error(ErrorCode::invalid_argument, "DistributedSampler: drop_last leaves nothing of " +
                                                 std::to_string(samples) + " samples for " + std::to_string(world) +
                                                 " ranks; use fewer ranks, or the tail pad or uneven.");
  if (options.shuffle && samples >= kShuffleLimit)
    throw Error(ErrorCode::invalid_argument, "DistributedSampler: cannot shuffle " + std::to_string(samples) +
                                                 " samples; valid: fewer than " + std::to_string(kShuffleLimit) + ".");
  total_ = positions(samples, world_, options.tail);
}

std::size_t DistributedSampler::size() const { return (total_ + world_ - 1 - rank_) / world_; }

std::vector<std::size_t> DistributedSampler::order(std::uint64_t epoch) const {
  std::vector<std::size_t> order(samples_);
  for (std::size_t i = 0; i < samples_; ++i) order[i] = i;
  if (options_.shuffle) {
    std::mt19937 random(static_cast<std::uint32_t>(options_.seed + epoch));
    for (std::size_t i = 0; i + 1 < samples_; ++i) std::swap(order[i], order[i + random() % (samples_ - i)]);
  }
  order.resize(total_);
  for (std::size_t i = samples_; i < total_; ++i) order[i] = order[i - samples_];
  return order;
}

std::vector<std::size_t> DistributedSampler::indices(std::uint64_t epoch) const {
  const std::vector<std::size_t> all = order(epoch);
  std::vector<std::size_t> mine;
  mine.reserve(size());
  for (std::size_t i = rank_; i < total_; i += world_) mine.push_back(all[i]);
  return mine;
}

std::vector<std::vector<std::size_t>> DistributedSampler::batches(std::uint64_t epoch, std::size_t global_batch) const {
  if (global_batch == 0) throw Error(ErrorCode::invalid_argument, "DistributedSampler: a batch must hold 1 sample.");
  const std::vector<std::size_t> mine = indices(epoch);
  std::vector<std::vector<std::size_t>> batches((total_ - 1) / global_batch + 1);
  for (std::size_t i = 0; i < mine.size(); ++i) batches[(rank_ + i * world_) / global_batch].push_back(mine[i]);
  return batches;
}

}  // namespace tutti
