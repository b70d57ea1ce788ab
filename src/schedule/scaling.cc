// The derived marks: where operators with a factor (avg, pre-multiplied sums) apply it. A raw contribution is scaled
// where it enters, a result once, in the Step that completes it; executors obey the marks and need not know the
// algorithm.

#include "src/schedule/collectives.h"
#include "src/schedule/verify_parts.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// How many contributions every chunk of output and scratch holds at some moment of a round.
class Contents {
 public:
  explicit Contents(const Schedule& schedule)
      : of_rank_(at(schedule.output_chunks) + at(schedule.scratch_chunks)),
        scratch_(at(schedule.output_chunks)),
        counts_(at(schedule.ranks) * of_rank_) {}
  int& operator()(int rank, Buffer buffer, int chunk) {
    return counts_[at(rank) * of_rank_ + (buffer == Buffer::scratch ? scratch_ : 0) + at(chunk)];
  }

 private:
  std::size_t of_rank_, scratch_;
  std::vector<int> counts_;
};

void mark_operands(Schedule& schedule, bool reducing) {
  for (Program& program : schedule.programs)
    for (Lane& lane : program.lanes)
      for (Step& step : lane) {
        step.postscale = false;
        for (Operand& in : step.in)
          in.prescale = reducing && in.kind == Operand::Kind::local && in.buffer == Buffer::input;
      }
}

// Where each Step's results begin in a list of all.
std::vector<std::size_t> result_begins(const Wiring& wiring) {
  std::vector<std::size_t> begins(at(wiring.size()) + 1);
  for (int id = 0; id < wiring.size(); ++id) begins[at(id) + 1] = begins[at(id)] + at(wiring.step(id).chunks);
  return begins;
}

void mark_completions(Schedule& schedule, const Wiring& wiring) {
  Contents contents(schedule);
  const std::vector<std::size_t> begin = result_begins(wiring);
  std::vector<int> result(begin.back());  // contributions in each chunk of each Step's result
  for (const int id : wiring.firing_order()) {
    const StepPlace& place = wiring.place(id);
    Step& step = schedule.programs[at(place.rank)].lanes[at(place.lane)][at(place.step)];
    // With one rank the raw contribution is complete from the start: the copy of it completes the output.
    bool completes = !step.in.empty();
    for (int c = 0; c < step.chunks; ++c) {
      int sum = 0;
      for (std::size_t k = 0; k < step.in.size(); ++k) {
        const Operand& in = step.in[k];
        int count = in.prescale ? 1 : 0;
        if (in.kind == Operand::Kind::local && !in.prescale)
          count = contents(place.rank, in.buffer, in.index + c);
        else if (const int sender = wiring.senders(id)[k]; sender >= 0)
          count = result[begin[at(sender)] + at(c)];
        if (count >= schedule.ranks && !in.prescale) completes = false;
        sum += count;
      }
      if (sum < schedule.ranks) completes = false;
      result[begin[at(id)] + at(c)] = sum;
    }
    step.postscale = completes;
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local)
        for (int c = 0; c < step.chunks; ++c)
          contents(place.rank, out.buffer, out.index + c) = result[begin[at(id)] + at(c)];
  }
}

}  // namespace

void derive_scaling(Schedule& schedule) {
  const auto refuse = [](const Fault& fault) { throw Error(ErrorCode::invalid_argument, fault.text); };
  if (const auto fault = check_structure(schedule)) refuse(*fault);
  const Wiring wiring(schedule);
  if (const auto fault = check_messages(schedule, wiring)) refuse(*fault);
  const bool reducing = traits_of(schedule.collective).reduces;
  mark_operands(schedule, reducing);
  if (reducing) mark_completions(schedule, wiring);
}

}  // namespace tutti::schedule
