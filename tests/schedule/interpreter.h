// A second opinion on what the verifier says: runs a Schedule for several rounds and operations with bounded slots, in
// random interleavings, on values that show who contributed what, when, and in which order it was combined. It shares
// no code with the verifier and knows nothing of its reasons: it moves values and looks at the outcome.
#pragma once

#include <cstdint>
#include <string>

#include "src/schedule/contract.h"
#include "src/schedule/schedule.h"
#include "src/schedule/transfer.h"

namespace tutti::schedule::testing {

struct Run {
  int slots = 2;
  int rounds = 3;                        // of every operation
  int operations = 3;                    // back to back
  Transfer transfer = Transfer::copied;  // each message that may travel so does, or is copied, at random
  bool in_place = false;
  bool blocking = false;  // whether a rank ends an operation before it begins the next
  std::uint32_t seed = 0;
};

enum class Outcome { right, stuck, wrong };

struct Report {
  Outcome outcome = Outcome::right;
  std::string text;
};

// The schedule must have passed the verifier's structural checks.
Report interpret(const Schedule& schedule, const Contract& contract, const Run& run);

}  // namespace tutti::schedule::testing
