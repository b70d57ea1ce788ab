// How members of a communicator meet again, to be another one: split() and shrink().
//
// They need nothing of the communicator itself, which may have failed by then: only what its ranks told each other when
// they connected. The lowest of the new ranks holds the meeting, under a name that all members can reckon by
// themselves: the communicator's number, the occasion, how many meetings for it the members have called, and a color.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
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

// Counted apart: ranks that a failed split() has left with different counts must still meet to shrink.
enum class Occasion : std::uint8_t { split, shrink };

struct Reunion {
  std::uint64_t communicator = 0;  // its number, equal on all ranks
  Secret secret{};
  std::vector<ReunionPlace> places;       // by rank; none when all ranks are on one host, where a name suffices
  base::Fd listener;                      // this rank's, at its place
  std::array<std::uint64_t, 2> called{};  // meetings so far, by Occasion

  // Calls a meeting of `members` (ranks of the communicator, in the order of their new ranks; none: others meet), of
  // whom `self` is one. `color` tells meetings apart that are called at the same time.
  Job call(const std::vector<int>& members, int self, Occasion occasion, int color = 0);
};

}  // namespace tutti::runtime
