// How members of a communicator meet again, to be another one: split() and shrink().
//
// They need nothing of the communicator itself, which may have failed by then: only what its ranks told each other when
// they connected. The lowest of the new ranks holds the meeting, under a name that all members can reckon by
// themselves: the communicator's number, how many meetings its members have called so far, and a word of the caller's.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/fd.h"
#include "src/runtime/job.h"

namespace tutti::runtime {

// Where a rank can be met from another host.
struct ReunionPlace {
  std::vector<std::string> hosts;
  std::uint16_t port = 0;
};
std::vector<std::byte> to_blob(const ReunionPlace& place);
// Throws Error(internal_error) that names the rank when the bytes make no sense.
ReunionPlace reunion_place_from_blob(const std::vector<std::byte>& blob, int rank);

struct Reunion {
  std::uint64_t communicator = 0;  // its number, equal on all ranks
  Secret secret{};
  std::vector<ReunionPlace> places;  // by rank; none when all ranks are on one host, where a name suffices
  base::Fd listener;                 // this rank's, at its place
  std::uint64_t called = 0;          // meetings so far

  // Calls a meeting of `members` (ranks of the communicator, in the order of their new ranks; none: others meet), of
  // whom `self` is one.
  // `word` tells meetings apart that are called at the same time.
  Job call(const std::vector<int>& members, int self, std::string_view word);
};

}  // namespace tutti::runtime
