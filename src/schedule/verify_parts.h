// The parts of the verifier, one file each, and the words they share. Only verifier.cc, its parts
// and scaling.cc include this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/schedule/contract.h"
#include "src/schedule/verifier.h"
#include "src/schedule/wiring.h"

namespace tutti::schedule {

struct Fault {
  FaultKind kind = FaultKind::structure;
  std::string text;
  StepPlace place{-1, -1, -1};
};

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Of structure.
Fault port_fault(int port, const std::string& what);
Fault step_fault(const StepPlace& place, const std::string& what);

// "rank 2, lane 0, step 3"
std::string text_of(const StepPlace& place);
// "output chunk 7"
std::string text_of(Buffer buffer, int chunk);

inline constexpr int kUnacknowledgedSlots = 2;

// One Step's take of one message, seen from the sender: the Step that waits for the slot of message `number` to be free
// waits for `releasing` of `rounds_back` rounds before.
struct SlotRelease {
  int message = 0;      // the earlier message, by number in its round
  int rounds_back = 0;  // 0: of the same round
};
SlotRelease release_before(int message, int messages_per_round, int slots);

// For every port, by message number and reader, the Step that takes the message.
class Receivers {
 public:
  Receivers(const Schedule& schedule, const Wiring& wiring);
  int messages(int port) const { return messages_[at(port)]; }
  const std::vector<int>& of(int port, int message) const { return takers_[at(first_[at(port)] + message)]; }

 private:
  std::vector<int> messages_, first_;
  std::vector<std::vector<int>> takers_;
};

// Happens-before within one round, as a vector clock per Step over all lanes of all ranks.
class Clocks {
 public:
  explicit Clocks(const Wiring& wiring);
  // `before` and `after` are Steps of the same round.
  bool ordered(int before, int after) const { return before != after && reaches(before, after); }
  // The same across rounds. The lanes of which a Step, `rounds_back` (1 or more) rounds before that of `step`, comes
  // before `step`; and then all of the lane's Steps of that round do.
  std::vector<char> lanes_before(int step, int rounds_back) const;
  // Whether `step` comes before the end of one of these lanes.
  bool reaches_any(int step, const std::vector<char>& lanes) const;
  bool ordered_next_round(int before, int after) const { return reaches_any(before, lanes_before(after, 1)); }
  // Whether some Step of `rank` comes after `step` in the same round (so that the rank's operation ends after it).
  bool heard_by(int rank, int step) const;

 private:
  bool reaches(int before, int after) const { return seen(after, lane_[at(before)]) > step_[at(before)]; }
  int seen(int step, int lane) const { return clock_[at(step) * at(lanes_) + at(lane)]; }

  int lanes_ = 0;
  std::vector<int> lane_, step_;  // of every Step: its lane counted over all ranks, and its place in it
  std::vector<int> last_;         // of every lane: its last Step
  std::vector<int> lane_rank_;
  std::vector<char> lane_follows_;  // [lane][other]: some Step of the lane comes after one of the other, same round
  std::vector<int> clock_;          // [step][lane]: how many Steps of the lane come before or are it
};

// What can be said by looking at one Step or one port at a time; a Wiring may be made of what passes.
std::optional<Fault> check_structure(const Schedule& schedule);
// Both ends of every port; also of FaultKind::structure.
std::optional<Fault> check_messages(const Schedule& schedule, const Wiring& wiring);
std::optional<Fault> check_progress(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers,
                                    int slots);
std::optional<Fault> check_races(const Schedule& schedule, const Wiring& wiring, const Clocks& clocks,
                                 Transfer transfer, bool in_place);
std::optional<Fault> check_expressions(const Schedule& schedule, const Contract& contract, const Wiring& wiring);
std::optional<Fault> check_slot_reuse(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers,
                                      const Clocks& clocks);

}  // namespace tutti::schedule
