#include "src/schedule/verifier.h"

#include "src/schedule/verify_parts.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

Verdict refused(Fault fault) {
  return {.ok = false,
          .kind = fault.kind,
          .fault = std::move(fault.text),
          .rank = fault.place.rank,
          .lane = fault.place.lane,
          .step = fault.place.step,
          .safe = {}};
}

void check_shape(const Contract& contract, const Schedule& schedule) {
  bool fits = contract.set_of.size() == at(schedule.ranks);
  for (const auto& row : contract.set_of) fits = fits && row.size() == at(schedule.output_chunks);
  if (!fits) throw Error(ErrorCode::invalid_argument, "verify: the contract is for other ranks or output chunks.");
}

Safety find_safety(const Schedule& schedule, const Wiring& wiring, const Clocks& clocks) {
  Safety safe;
  safe.set(Transfer::copied, false, "");
  for (Transfer transfer : {Transfer::copied, Transfer::lent, Transfer::placed, Transfer::mixed})
    for (bool in_place : {false, true}) {
      if (transfer == Transfer::copied && !in_place) continue;
      const std::optional<Fault> hazard = check_races(schedule, wiring, clocks, transfer, in_place);
      safe.set(transfer, in_place, hazard ? hazard->text : "");
    }
  return safe;
}

}  // namespace

Verdict verify(const Schedule& schedule, int slots) {
  if (auto fault = check_structure(schedule)) return refused(*fault);
  return verify(schedule, contract_of(schedule), slots);
}

Verdict verify(const Schedule& schedule, const Contract& contract, int slots) {
  if (slots < 1)
    throw Error(ErrorCode::invalid_argument,
                "verify: the number of slots is " + std::to_string(slots) + "; it must be at least 1.");
  if (auto fault = check_structure(schedule)) return refused(*fault);
  const Wiring wiring(schedule);
  if (auto fault = check_messages(schedule, wiring)) return refused(*fault);
  check_shape(contract, schedule);
  const Receivers receivers(schedule, wiring);
  if (auto fault = check_progress(schedule, wiring, receivers, slots)) return refused(*fault);
  const Clocks clocks(wiring);
  if (auto fault = check_races(schedule, wiring, clocks, Transfer::copied, false)) return refused(*fault);
  if (auto fault = check_expressions(schedule, contract, wiring)) return refused(*fault);
  if (auto fault = check_slot_reuse(schedule, wiring, receivers, clocks)) return refused(*fault);
  Verdict verdict;
  verdict.ok = true;
  verdict.safe = find_safety(schedule, wiring, clocks);
  return verdict;
}

Fault port_fault(int port, const std::string& what) {
  return {FaultKind::structure, "Port " + std::to_string(port) + " " + what + "."};
}

Fault step_fault(const StepPlace& place, const std::string& what) {
  return {FaultKind::structure, "At " + text_of(place) + ": " + what + ".", place};
}

std::string text_of(const StepPlace& place) {
  return "rank " + std::to_string(place.rank) + ", lane " + std::to_string(place.lane) + ", step " +
         std::to_string(place.step);
}

std::string text_of(Buffer buffer, int chunk) {
  const char* name = buffer == Buffer::input ? "input" : buffer == Buffer::output ? "output" : "scratch";
  return std::string(name) + " chunk " + std::to_string(chunk);
}

}  // namespace tutti::schedule
