// The derived marks: where operators with a factor (avg, pre-multiplied sums) apply it. A raw contribution is scaled
// where it enters, a result once, in the Step that completes it; executors obey the marks and need not know the
// algorithm.

#include "src/schedule/verify_parts.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// How many contributions every chunk of one rank holds at some moment of a round.
struct Contents {
  std::vector<int> of[3];  // by Buffer

  explicit Contents(const Schedule& schedule) {
    of[0].assign(at(schedule.input_chunks), 1);
    of[1].assign(at(schedule.output_chunks), 0);
    of[2].assign(at(schedule.scratch_chunks), 0);
  }
  int& operator()(Buffer buffer, int chunk) { return of[static_cast<std::size_t>(buffer)][at(chunk)]; }
};

}  // namespace

void derive_scaling(Schedule& schedule) {
  if (const auto fault = check_structure(schedule)) throw Error(ErrorCode::invalid_argument, fault->text);
  const bool reducing = schedule.collective == Collective::all_reduce;
  for (Program& program : schedule.programs)
    for (Lane& lane : program.lanes)
      for (Step& step : lane) {
        step.postscale = false;
        for (Operand& in : step.in)
          in.prescale = reducing && in.kind == Operand::Kind::local && in.buffer == Buffer::input;
      }
  if (!reducing) return;

  const Wiring wiring(schedule);
  std::vector<Contents> contents(at(schedule.ranks), Contents(schedule));
  std::vector<std::vector<int>> result(at(wiring.size()));  // contributions in each chunk of a Step's result
  for (int id : wiring.firing_order()) {
    const StepPlace& place = wiring.place(id);
    Step& step = schedule.programs[at(place.rank)].lanes[at(place.lane)][at(place.step)];
    result[at(id)].assign(at(step.chunks), 0);
    // With one rank the raw contribution is complete from the start: the copy of it completes the output.
    bool completes = !step.in.empty();
    for (int c = 0; c < step.chunks; ++c) {
      int& sum = result[at(id)][at(c)];
      for (std::size_t k = 0; k < step.in.size(); ++k) {
        const Operand& in = step.in[k];
        int count = 0;
        if (in.kind == Operand::Kind::local)
          count = contents[at(place.rank)](in.buffer, in.index + c);
        else if (const int sender = wiring.senders(id)[k]; sender >= 0)
          count = result[at(sender)][at(c)];
        if (count >= schedule.ranks && !in.prescale) completes = false;
        sum += count;
      }
      if (sum < schedule.ranks) completes = false;
    }
    step.postscale = completes;
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local)
        for (int c = 0; c < step.chunks; ++c)
          contents[at(place.rank)](out.buffer, out.index + c) = result[at(id)][at(c)];
  }
}

}  // namespace tutti::schedule
