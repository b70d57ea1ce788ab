// The hand-written references must be right for any number of ranks and elements, in any order of calls, or what is
// measured against them means nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "bench/peers/reference.h"
#include "bench/peers/vector_sum.h"

using namespace tutti::peers;

namespace {

constexpr std::size_t kMostFloats = 70'000;
constexpr Stores kOrdinary = Stores::ordinary;
constexpr Stores kStreaming = Stores::streaming;

// Small whole numbers, which differ by rank, element and turn, so that sums are exact and stale data are seen.
float value(int rank, std::size_t i, int turn) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 31 + static_cast<std::size_t>(turn) * 101) %
                            1009);
}

float expected(int ranks, std::size_t i, int turn) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i, turn);
  return sum;
}

struct Mapped {
  explicit Mapped(int ranks) : memory(static_cast<std::size_t>(ranks) * 2 * kMostFloats * sizeof(float)) {
    for (int rank = 0; rank < ranks; ++rank) {
      float* base = reinterpret_cast<float*>(memory.data()) + static_cast<std::size_t>(rank) * 2 * kMostFloats;
      inputs.push_back(base);
      outputs.push_back(base + kMostFloats);
    }
  }
  SharedMemory memory;
  std::vector<const float*> inputs;
  std::vector<float*> outputs;
};

// All algorithms by turns, with counts that end within a line, a slice and a chunk; 0, or the turn that went wrong.
int first_wrong_turn(ReferenceRank& reference, const Mapped& mapped, int rank, int ranks) {
  constexpr std::size_t kChunk = 16 << 10;
  constexpr std::size_t kCounts[] = {1, 2, 13, 14, 15, 63, 64, 1000, 4096, 5000, 65'537, kMostFloats};
  const auto own = static_cast<std::size_t>(rank);
  std::vector<float> input(kMostFloats), output(kMostFloats);
  int turn = 0;
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const std::size_t count : kCounts)
      for (int algorithm = 0; algorithm < 10; ++algorithm) {
        if (algorithm == 0 && count > ReferenceRank::kMostLineFloats) continue;
        ++turn;
        const bool is_mapped = algorithm >= 7;
        float* in = is_mapped ? const_cast<float*>(mapped.inputs[own]) : input.data();
        float* out = is_mapped ? mapped.outputs[own] : output.data();
        for (std::size_t i = 0; i < count; ++i) in[i] = value(rank, i, turn);
        for (std::size_t i = 0; i < count && !is_mapped; ++i) out[i] = -1;  // mapped: the others may have begun
        switch (algorithm) {
          case 0: reference.flag_in_line(in, out, count); break;
          case 1: reference.staged_one_shot(in, out, count, {kChunk, kOrdinary, kOrdinary}); break;
          case 2: reference.staged_one_shot(in, out, count, {kChunk, kStreaming, kOrdinary}); break;
          case 3: reference.staged_two_shot(in, out, count, {kChunk, kOrdinary, kOrdinary}); break;
          case 4: reference.staged_two_shot(in, out, count, {kChunk, kOrdinary, kStreaming}); break;
          case 5: reference.staged_two_shot(in, out, count, {kChunk, kStreaming, kOrdinary}); break;
          case 6: reference.staged_two_shot(in, out, count, {kChunk, kStreaming, kStreaming}); break;
          case 7: reference.mapped_one_shot(mapped.inputs, out, count); break;
          case 8: reference.mapped_two_shot(mapped.inputs, mapped.outputs, count, kOrdinary); break;
          default: reference.mapped_two_shot(mapped.inputs, mapped.outputs, count, kStreaming); break;
        }
        for (std::size_t i = 0; i < count; ++i)
          if (out[i] != expected(ranks, i, turn)) return turn;
      }
  return 0;
}

}  // namespace

TEST_CASE("the references sum exactly, whatever the ranks, the counts and the order of calls") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const SharedMemory shared(ReferenceRank::shared_bytes(ranks));
  const Mapped mapped(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ReferenceRank reference(shared.data(), rank, ranks);
      ::_exit(first_wrong_turn(reference, mapped, rank, ranks) == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("copies and sums with any alignment and length") {
  constexpr std::size_t kFloats = 300;
  const bool streaming = GENERATE(false, true);
  for (std::size_t offset = 0; offset < 5; ++offset)
    for (std::size_t count = 0; count < 150; count += 7) {
      std::vector<float> a(kFloats), b(kFloats), copied(kFloats, -1), one(kFloats, -1), two(kFloats, -1);
      for (std::size_t i = 0; i < kFloats; ++i) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(1000 * i);
      }
      const float* sources[] = {a.data(), b.data()};
      float* targets[] = {one.data(), two.data()};
      (streaming ? copy_floats_streaming : copy_floats)(copied.data() + offset, a.data() + 1, count);
      (streaming ? sum_floats_streaming : sum_floats)(sources, 2, targets, 2, offset, offset + count);
      for (std::size_t i = 0; i < kFloats; ++i) {
        const bool inside = i >= offset && i < offset + count;
        REQUIRE(copied[i] == (inside ? static_cast<float>(i - offset + 1) : -1));
        REQUIRE(one[i] == (inside ? static_cast<float>(1001 * i) : -1));
        REQUIRE(two[i] == one[i]);
      }
    }
}
