// All-reduces written by hand, with no library around them: what a library on the same machine can be measured against.
// They are well-made references, no proofs of what is possible. float32, sum, ranks as processes of one host.
//
// Three families (N ranks, S bytes; a turn is the number of a call or chunk, the same on every rank):
//   flag in line   every rank writes its input as lines of 56 bytes and a flag, one cache line each, into its row;
//                  every rank waits for each line's flag and sums the rows. One exchange; (N-1)S bytes read per rank.
//   staged         for private inputs and outputs, through shared staging slots, chunk by chunk:
//     one-shot     copy the chunk into the own slot, raise the flag, wait for all, sum all slots. One exchange a chunk.
//     two-shot     copy what the others sum into the own slot; sum the own Nth of the chunk into the output and into
//                  the result slot; copy the other parts of the result out. Two exchanges a chunk, 2(N-1)/N S read per
//                  rank. The next chunk is copied in before the last exchange is waited for.
//   mapped         for inputs and outputs that all ranks map: a barrier, the sum, a barrier.
//     one-shot     every rank sums everything into its own output.
//     two-shot     every rank sums its Nth and stores it into all outputs.
// Streaming stores go past the writer's caches. Into outputs, they pay for messages that no cache holds; into slots,
// where taking a line over from the core that has read it costs more than memory does.
//
// Memory order. Data are written before the own flag is stored (release) and read after the owner's flag was seen
// (acquire). A rank writes slot (turn mod 2) again two turns later, when it has seen every flag of the turn between;
// each rank raises that flag only after it has read all it needs of the turn before it. So two slots are enough.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::peers {

// Zeroed memory that this process and those it forks afterwards share, page by page as it is touched.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

enum class Stores { ordinary, streaming };

struct StagedForm {
  std::size_t chunk_bytes;  // at most ReferenceRank::kMostChunkBytes
  Stores slots;             // what is staged
  Stores outputs;           // of two-shot: what a rank delivers
};

// One rank's part. Every rank makes the same calls with the same counts in the same order; a call blocks until the
// rank's output is complete and throws std::runtime_error when a rank stays away for longer than a minute.
class ReferenceRank {
 public:
  static constexpr std::size_t kMostLineFloats = 1024;
  static constexpr std::size_t kMostChunkBytes = std::size_t{512} << 10;

  // Bytes of the shared memory that `ranks` ranks need, made before they are forked.
  static std::size_t shared_bytes(int ranks);
  ReferenceRank(std::byte* shared, int rank, int ranks);

  // count is at most kMostLineFloats.
  void flag_in_line(const float* input, float* output, std::size_t count);
  void staged_one_shot(const float* input, float* output, std::size_t count, const StagedForm& form);
  void staged_two_shot(const float* input, float* output, std::size_t count, const StagedForm& form);
  // inputs and outputs of all ranks, by rank.
  void mapped_one_shot(const std::vector<const float*>& inputs, float* output, std::size_t count);
  void mapped_two_shot(const std::vector<const float*>& inputs, const std::vector<float*>& outputs, std::size_t count,
                       Stores stores);

 private:
  static constexpr std::size_t kLineFloats = 14;
  static constexpr std::size_t kLines = (kMostLineFloats + kLineFloats - 1) / kLineFloats;
  static constexpr int kMostRanks = 64;

  using Turn = std::atomic<std::uint64_t>;
  struct alignas(64) Line {
    float data[kLineFloats];
    Turn turn;
  };
  struct alignas(64) Flag {
    Turn turn;
  };
  struct Board {
    Flag arrived[kMostRanks];
    Flag reduced[kMostRanks];
    Line lines[2][kMostRanks][kLines];
  };
  struct Slice {
    std::size_t begin, end;
  };

  Slice slice(std::size_t count, int rank) const;
  float* slot(std::uint64_t turn, int rank) const;
  float* result(std::uint64_t turn) const;
  void copy_in(const float* input, std::size_t count, std::uint64_t turn, const StagedForm& form);
  void copy_out(float* output, std::size_t count, std::uint64_t turn, const StagedForm& form) const;
  void reduce_own(const float* input, float* output, std::size_t count, std::uint64_t turn, const StagedForm& form);
  void exchange(Flag* flags, std::uint64_t turn);
  void await_all(const Flag* flags, std::uint64_t turn) const;
  void await(const Turn& seen, std::uint64_t turn) const;

  Board* board_;
  float* stage_;
  int rank_;
  int ranks_;
  int polls_before_yield_;
  std::uint64_t turn_ = 0;
  std::vector<const float*> sources_;
};

}  // namespace tutti::peers
