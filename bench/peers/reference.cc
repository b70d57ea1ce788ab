#include "bench/peers/reference.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "bench/peers/vector_sum.h"

namespace tutti::peers {
namespace {

constexpr std::size_t kLineOfFloats = 16;
constexpr int kPollsOnSharedCore = 20;    // then yield
constexpr int kPollsOnOwnCore = 1 << 20;  // about ten milliseconds
constexpr int kYieldsPerLookAtClock = 256;
constexpr std::chrono::seconds kPatience{60};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void copy(float* to, const float* from, std::size_t count, Stores stores) {
  (stores == Stores::ordinary ? copy_floats : copy_floats_streaming)(to, from, count);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("cannot map " + std::to_string(bytes) +
                             " bytes of shared memory: " + std::strerror(errno));
  data_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

std::size_t ReferenceRank::shared_bytes(int ranks) {
  return sizeof(Board) + 2 * (static_cast<std::size_t>(ranks) + 1) * kMostChunkBytes;
}

ReferenceRank::ReferenceRank(std::byte* shared, int rank, int ranks)
    : board_(reinterpret_cast<Board*>(shared)),
      stage_(reinterpret_cast<float*>(shared + sizeof(Board))),
      rank_(rank),
      ranks_(ranks),
      polls_before_yield_(ranks > sysconf(_SC_NPROCESSORS_ONLN) ? kPollsOnSharedCore : kPollsOnOwnCore),
      sources_(static_cast<std::size_t>(ranks)) {}

void ReferenceRank::await(const Turn& seen, std::uint64_t turn) const {
  for (int poll = 0; poll < polls_before_yield_; ++poll) {
    if (seen.load(std::memory_order_acquire) >= turn) return;
    relax();
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int yields = 1; seen.load(std::memory_order_acquire) < turn; ++yields) {
    sched_yield();
    if (yields % kYieldsPerLookAtClock == 0 && std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("rank " + std::to_string(rank_) + " has waited for another for a minute");
  }
}

void ReferenceRank::await_all(const Flag* flags, std::uint64_t turn) const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_) await(flags[rank].turn, turn);
}

void ReferenceRank::exchange(Flag* flags, std::uint64_t turn) {
  flags[rank_].turn.store(turn, std::memory_order_release);
  await_all(flags, turn);
}

// Whole cache lines, so that no two ranks write one.
ReferenceRank::Slice ReferenceRank::slice(std::size_t count, int rank) const {
  const auto border = [&](int of) {
    return of == ranks_ ? count
                        : count * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks_) / kLineOfFloats *
                              kLineOfFloats;
  };
  return {border(rank), border(rank + 1)};
}

float* ReferenceRank::slot(std::uint64_t turn, int rank) const {
  const std::size_t index = (turn % 2) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank);
  return stage_ + index * (kMostChunkBytes / sizeof(float));
}

float* ReferenceRank::result(std::uint64_t turn) const {
  const std::size_t index = 2 * static_cast<std::size_t>(ranks_) + turn % 2;
  return stage_ + index * (kMostChunkBytes / sizeof(float));
}

void ReferenceRank::flag_in_line(const float* input, float* output, std::size_t count) {
  const std::uint64_t turn = ++turn_;
  Line(&rows)[kMostRanks][kLines] = board_->lines[turn % 2];
  const std::size_t lines = (count + kLineFloats - 1) / kLineFloats;
  for (std::size_t i = 0; i < lines; ++i) {
    Line& line = rows[rank_][i];
    std::memcpy(line.data, input + i * kLineFloats, std::min(kLineFloats, count - i * kLineFloats) * sizeof(float));
    line.turn.store(turn, std::memory_order_release);
  }
  for (std::size_t i = 0; i < lines; ++i) {
    const std::size_t here = std::min(kLineFloats, count - i * kLineFloats);
    float sum[kLineFloats] = {};
    for (int rank = 0; rank < ranks_; ++rank) {
      const Line& line = rows[rank][i];
      if (rank != rank_) await(line.turn, turn);
      for (std::size_t k = 0; k < kLineFloats; ++k) sum[k] += line.data[k];
    }
    std::memcpy(output + i * kLineFloats, sum, here * sizeof(float));
  }
}

void ReferenceRank::staged_one_shot(const float* input, float* output, std::size_t count, const StagedForm& form) {
  const std::size_t chunk = form.chunk_bytes / sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t here = std::min(chunk, count - begin);
    const std::uint64_t turn = ++turn_;
    copy(slot(turn, rank_), input + begin, here, form.slots);
    exchange(board_->arrived, turn);
    for (int rank = 0; rank < ranks_; ++rank)
      sources_[static_cast<std::size_t>(rank)] = rank == rank_ ? input + begin : slot(turn, rank);
    float* target = output + begin;
    sum_floats(sources_.data(), ranks_, &target, 1, 0, here);
  }
}

// What the others reduce, into the own slot.
void ReferenceRank::copy_in(const float* input, std::size_t count, std::uint64_t turn, const StagedForm& form) {
  const Slice own = slice(count, rank_);
  float* mine = slot(turn, rank_);
  copy(mine, input, own.begin, form.slots);
  copy(mine + own.end, input + own.end, count - own.end, form.slots);
  board_->arrived[rank_].turn.store(turn, std::memory_order_release);
}

// The sum of the own part, into the result slot and the output.
void ReferenceRank::reduce_own(const float* input, float* output, std::size_t count, std::uint64_t turn,
                               const StagedForm& form) {
  const Slice own = slice(count, rank_);
  await_all(board_->arrived, turn);
  for (int rank = 0; rank < ranks_; ++rank)
    sources_[static_cast<std::size_t>(rank)] = rank == rank_ ? input : slot(turn, rank);
  float* targets[] = {result(turn), output};
  if (form.slots == Stores::ordinary) {
    const int here = form.outputs == Stores::ordinary ? 2 : 1;
    sum_floats(sources_.data(), ranks_, targets, here, own.begin, own.end);
    board_->reduced[rank_].turn.store(turn, std::memory_order_release);
    if (here == 1) copy_floats_streaming(output + own.begin, result(turn) + own.begin, own.end - own.begin);
  } else if (form.outputs == Stores::streaming) {
    sum_floats_streaming(sources_.data(), ranks_, targets, 2, own.begin, own.end);
    board_->reduced[rank_].turn.store(turn, std::memory_order_release);
  } else {
    sum_floats(sources_.data(), ranks_, targets + 1, 1, own.begin, own.end);
    copy_floats_streaming(result(turn) + own.begin, output + own.begin, own.end - own.begin);
    board_->reduced[rank_].turn.store(turn, std::memory_order_release);
  }
}

// What the others have reduced. Begins with the next rank's part, so that not all read the same at once.
void ReferenceRank::copy_out(float* output, std::size_t count, std::uint64_t turn, const StagedForm& form) const {
  for (int step = 1; step < ranks_; ++step) {
    const int rank = (rank_ + step) % ranks_;
    const Slice part = slice(count, rank);
    await(board_->reduced[rank].turn, turn);
    copy(output + part.begin, result(turn) + part.begin, part.end - part.begin, form.outputs);
  }
}

void ReferenceRank::staged_two_shot(const float* input, float* output, std::size_t count, const StagedForm& form) {
  const std::size_t chunk = form.chunk_bytes / sizeof(float);
  const std::uint64_t first = turn_ + 1;
  const std::uint64_t chunks = (count + chunk - 1) / chunk;
  const auto begin = [&](std::uint64_t i) { return static_cast<std::size_t>(i) * chunk; };
  const auto length = [&](std::uint64_t i) { return std::min(chunk, count - begin(i)); };
  turn_ += chunks;
  copy_in(input, length(0), first, form);
  for (std::uint64_t i = 0; i < chunks; ++i) {
    reduce_own(input + begin(i), output + begin(i), length(i), first + i, form);
    if (i + 1 < chunks) copy_in(input + begin(i + 1), length(i + 1), first + i + 1, form);
    copy_out(output + begin(i), length(i), first + i, form);
  }
}

void ReferenceRank::mapped_one_shot(const std::vector<const float*>& inputs, float* output, std::size_t count) {
  const std::uint64_t turn = ++turn_;
  exchange(board_->arrived, turn);
  sum_floats(inputs.data(), ranks_, &output, 1, 0, count);
  exchange(board_->reduced, turn);
}

void ReferenceRank::mapped_two_shot(const std::vector<const float*>& inputs, const std::vector<float*>& outputs,
                                    std::size_t count, Stores stores) {
  const std::uint64_t turn = ++turn_;
  const Slice own = slice(count, rank_);
  exchange(board_->arrived, turn);
  (stores == Stores::ordinary ? sum_floats : sum_floats_streaming)(inputs.data(), ranks_, outputs.data(), ranks_,
                                                                   own.begin, own.end);
  exchange(board_->reduced, turn);
}

}  // namespace tutti::peers
