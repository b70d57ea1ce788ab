// What a rank is doing: the facts that all ranks' calls must agree on, and how far it has come.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/types.h"

namespace tutti::runtime {

// One call. Calls of equal sequence number must be equal in every field but none of them mentions buffers.
struct OperationRecord {
  std::uint64_t sequence = 0;  // 1 for the first collective of a communicator; 0: none yet
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t plan = 0;  // hash of the plan this rank runs it by
  // Not 0: this is an exchange instead, of that number. Each rank counts its own; `sequence` is the last collective's.
  std::uint64_t exchange = 0;

  friend bool operator==(const OperationRecord&, const OperationRecord&) = default;
};

// "all_reduce #17 float x 1024 sum"
std::string describe(const OperationRecord& record);

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  return ((h ^ v) * 0x9E3779B97F4A7C15u) ^ ((h ^ v) >> 29);
}

// Of everything but the sequence number: the same for calls that repeat.
constexpr std::uint64_t hash_of_kind(const OperationRecord& r) {
  std::uint64_t h = mix(0x7475747469ull, std::uint64_t(r.collective) | std::uint64_t(r.type) << 8 |
                                             std::uint64_t(r.op) << 16 | std::uint64_t(std::uint32_t(r.root)) << 32);
  h = mix(h, r.count);
  return mix(h, r.plan);
}

// 32 bits that differ when records differ (but for one chance in 2^32). Inside the library only: not a wire promise.
// `previous` is the fingerprint of the call before: a rank whose call needed no message of ours (both of us were root
// of a broadcast, say) is found out at the next one.
constexpr std::uint32_t fingerprint(std::uint64_t kind_hash, std::uint64_t sequence, std::uint32_t previous) {
  return static_cast<std::uint32_t>(mix(mix(kind_hash, sequence), previous) >> 32);
}

}  // namespace tutti::runtime
