// The verifier's part on unacknowledged ports. Message n goes into the slot that message n - 2 was in. Before it is
// sent, its sender must have heard, by some chain of messages, that every reader has taken message n - 2: in the same
// round or one or two rounds before, or in an operation before, where the lanes run on as from round to round.
#include "src/schedule/verify_parts.h"

namespace tutti::schedule {

std::optional<Fault> check_slot_reuse(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers,
                                      const Clocks& clocks) {
  for (int id = 0; id < wiring.size(); ++id) {
    const int port = wiring.sends_through(id);
    if (port < 0 || schedule.ports[at(port)].acknowledged) continue;
    const SlotRelease release =
        release_before(wiring.message_number(id), receivers.messages(port), kUnacknowledgedSlots);
    const std::vector<char> lanes =
        release.rounds_back > 0 ? clocks.lanes_before(id, release.rounds_back) : std::vector<char>();
    for (int taker : receivers.of(port, release.message)) {
      if (release.rounds_back > 0 ? clocks.reaches_any(taker, lanes) : clocks.ordered(taker, id)) continue;
      const std::string when = release.rounds_back == 0   ? "the same round"
                               : release.rounds_back == 1 ? "the round before"
                                                          : std::to_string(release.rounds_back) + " rounds before";
      return Fault{FaultKind::slot_reuse,
                   "At " + text_of(wiring.place(id)) + ": the message of port " + std::to_string(port) +
                       ", which nobody acknowledges, may overwrite a slot that " + text_of(wiring.place(taker)) +
                       " of " + when + " still reads: the sender has not heard from it since.",
                   wiring.place(id)};
    }
  }
  return {};
}

}  // namespace tutti::schedule
