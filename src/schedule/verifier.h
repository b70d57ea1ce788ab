// Proves a Schedule right without running it, for any data, timing, number of rounds and operations back to back.
//
// What is proved, in this order (the first fault found is reported):
//  1. structure     indices, peers, ports and their ends, message counts and sizes, dependencies
//  2. progress      no deadlock with the stated number of slots per port, nor with more
//  3. races         no two conflicting accesses without an order between them
//  4. contract      every output chunk holds exactly the contributions it must, each once; no other is written
//  5. equal results whoever holds the same result computed it by the same expression tree (the operands of a two-input
//                   node may swap), so that results are bitwise equal
//  6. scaling       the derived marks scale every contribution and every result exactly once
//  7. slot reuse    unacknowledged ports: with two slots, nobody overwrites a message that a reader still needs
// Then, for every way in which messages may travel (transfer.h) and in place or out of place, whether it is safe.
//
// What executors owe for this to hold: a Step is one event (its message is published after its reads and local writes);
// lanes pass operations in call order; lent memory is given back to the user after acknowledged readers released it.
// The proof is of one Schedule back to back with itself. Different schedules may share an acknowledged port if a rank
// ends one operation before it begins the next; an unacknowledged port belongs to one schedule. Order comes from lanes,
// `after` and messages only, never from a lack of slots: the proof holds for any larger number of slots too. Chunks of
// scratch are taken to be reused by every round.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "src/schedule/contract.h"
#include "src/schedule/schedule.h"
#include "src/schedule/transfer.h"

namespace tutti::schedule {

// For each way to run a Schedule whether it is safe, and if not, what would go wrong.
class Safety {
 public:
  bool allows(Transfer transfer, bool in_place) const { return mode(transfer, in_place).safe; }
  const std::string& hazard(Transfer transfer, bool in_place) const { return mode(transfer, in_place).hazard; }
  void set(Transfer transfer, bool in_place, std::string hazard) {
    modes_[index(transfer, in_place)] = {hazard.empty(), std::move(hazard)};
  }

 private:
  struct Mode {
    bool safe = false;
    std::string hazard;
  };
  static std::size_t index(Transfer transfer, bool in_place) {
    return static_cast<std::size_t>(transfer) * 2 + (in_place ? 1 : 0);
  }
  const Mode& mode(Transfer transfer, bool in_place) const { return modes_[index(transfer, in_place)]; }
  std::array<Mode, 2 * kTransfers> modes_;
};

enum class FaultKind : std::uint8_t {
  none,
  structure,
  deadlock,
  race,
  contract,
  unequal_results,  // right contributions, but ranks combine them in different orders
  scaling,
  slot_reuse,
};

struct Verdict {
  bool ok = false;
  FaultKind kind = FaultKind::none;
  std::string fault;  // a sentence that names rank, lane, step, chunk and port; empty if ok
  int rank = -1;      // the Step at fault; -1 where no one Step is
  int lane = -1;
  int step = -1;
  Safety safe;  // meaningful if ok
};

// Verifies against the contract of the Schedule's collective. `slots` is what every acknowledged port has;
// unacknowledged ports always have two. Pure; safe from any thread; time and memory grow with Steps x lanes.
Verdict verify(const Schedule& schedule, int slots);

// The same against another contract, for collectives that have none of their own yet.
Verdict verify(const Schedule& schedule, const Contract& contract, int slots);

}  // namespace tutti::schedule
