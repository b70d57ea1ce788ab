// The verifier's second part: freedom from deadlock.
//
// A Step fires once its messages are there, its dependencies have run and its port has a free slot. Programs are
// deterministic and firing one Step never disables another, so rounds form an event graph: "Step v of round k waits for
// Step u of round k - d" with d >= 0 fixed per pair. Such a graph runs for ever, over any number of rounds and of
// operations back to back, exactly if no circle of waits has d = 0 all along. Waits across rounds (a lane's first Step
// for its last, a slot that the round before used) have d >= 1, and so does any order that callers add between
// operations. So it is enough to look for a circle among the waits within one round.
#include <algorithm>

#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

// Calls visit(step, port) for every Step that `id` waits for in its own round; port >= 0: for a slot of that port.
template <class Visit>
void for_each_wait(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers, int slots, int id,
                   Visit visit) {
  wiring.for_each_before(id, [&](int before) { visit(before, -1); });
  const int port = wiring.sends_through(id);
  if (port < 0 || !schedule.ports[at(port)].acknowledged) return;
  const SlotRelease release = release_before(wiring.message_number(id), receivers.messages(port), slots);
  if (release.rounds_back == 0)
    for (int taker : receivers.of(port, release.message)) visit(taker, port);
}

// Which Steps can never fire.
std::vector<bool> stuck_steps(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers, int slots) {
  std::vector<int> waits(at(wiring.size()));
  std::vector<std::vector<int>> waiters(at(wiring.size()));
  for (int id = 0; id < wiring.size(); ++id)
    for_each_wait(schedule, wiring, receivers, slots, id, [&](int before, int) {
      waiters[at(before)].push_back(id);
      ++waits[at(id)];
    });
  std::vector<int> fired;
  for (int id = 0; id < wiring.size(); ++id)
    if (waits[at(id)] == 0) fired.push_back(id);
  for (std::size_t i = 0; i < fired.size(); ++i)
    for (int waiter : waiters[at(fired[i])])
      if (--waits[at(waiter)] == 0) fired.push_back(waiter);
  std::vector<bool> stuck(at(wiring.size()), true);
  for (int id : fired) stuck[at(id)] = false;
  return stuck;
}

}  // namespace

SlotRelease release_before(int message, int messages_per_round, int slots) {
  const int earlier = message - slots;
  const int rounds_back = earlier >= 0 ? 0 : (-earlier + messages_per_round - 1) / messages_per_round;
  return {earlier + rounds_back * messages_per_round, rounds_back};
}

Receivers::Receivers(const Schedule& schedule, const Wiring& wiring) : messages_(schedule.ports.size()) {
  for (int id = 0; id < wiring.size(); ++id)
    if (wiring.sends_through(id) >= 0) ++messages_[at(wiring.sends_through(id))];
  int total = 0;
  for (int count : messages_) {
    first_.push_back(total);
    total += count;
  }
  takers_.resize(at(total));
  for (int id = 0; id < wiring.size(); ++id)
    for (int sender : wiring.senders(id))
      if (sender >= 0)
        takers_[at(first_[at(wiring.sends_through(sender))] + wiring.message_number(sender))].push_back(id);
}

std::optional<Fault> check_progress(const Schedule& schedule, const Wiring& wiring, const Receivers& receivers,
                                    int slots) {
  const std::vector<bool> stuck = stuck_steps(schedule, wiring, receivers, slots);
  const auto first = std::find(stuck.begin(), stuck.end(), true);
  if (first == stuck.end()) return {};

  // From any stuck Step, follow one stuck wait after the other: sooner or later this runs into a circle.
  struct Wait {
    int step, on, port;
  };
  std::vector<Wait> path;
  std::vector<int> visited_at(at(wiring.size()), -1);
  int current = static_cast<int>(first - stuck.begin());
  while (visited_at[at(current)] < 0) {
    visited_at[at(current)] = static_cast<int>(path.size());
    Wait wait{current, -1, -1};
    for_each_wait(schedule, wiring, receivers, slots, current, [&](int before, int port) {
      if (stuck[at(before)] && wait.on < 0) wait = {current, before, port};
    });
    path.push_back(wait);
    current = wait.on;
  }
  path.erase(path.begin(), path.begin() + visited_at[at(current)]);
  // Begin the story at a Step that lacks a slot, if there is one.
  const auto slotless = std::find_if(path.begin(), path.end(), [](const Wait& wait) { return wait.port >= 0; });
  if (slotless != path.end()) std::rotate(path.begin(), slotless, path.end());

  std::string text = "Deadlock with " + std::to_string(slots) + (slots == 1 ? " slot" : " slots") + " per port: ";
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(path.size(), kShown); ++i) {
    const Wait& wait = path[i];
    text += (i == 0 ? "" : ", which waits for ") +
            (i == 0 ? text_of(wiring.place(wait.step)) + " waits for " : std::string()) +
            (wait.port >= 0 ? "a slot of port " + std::to_string(wait.port) + " to be freed by " : std::string()) +
            text_of(wiring.place(wait.on));
  }
  if (path.size() > kShown) text += ", and so on through " + std::to_string(path.size()) + " steps back to the first";
  return Fault{FaultKind::deadlock, text + ".", wiring.place(path.front().step)};
}

}  // namespace tutti::schedule
