// The order of work for each side (out of place, then in place) of a row:
//   1. new data, a poisoned output, one call, check it: the first call, which also makes connections;
//   2. the warm-up, a barrier, the timed loop, a barrier;
//   3. out of place: check what the loop left, and that the input is as it was;
//   4. -c times: new data of another seed, a poisoned output, one call, check it. A part of the output that kept the
//      result of an earlier call is therefore wrong.
#include "bench/perf/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

namespace tutti::perf {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr int kPoison = 0xa7;  // bytes of an output before a checked call

double now_us(bool cpu_time) {
  if (cpu_time) {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes of a rank's input and output in the row of the largest size, over all types and ranks.
struct Capacity {
  std::size_t input = 0, output = 0;
};

Capacity capacity(const CollectiveUnderTest& collective, const Options& options, int ranks) {
  Capacity most;
  for (const DataType type : options.types)
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t bytes = size_of(type);
      const Shape shape =
          collective.shape(options.max_bytes / bytes, bytes, {rank, ranks, rank});  // as a root: the most
      most.input = std::max(most.input, shape.input_count * bytes);
      most.output = std::max(most.output, shape.output_count * bytes);
    }
  return most;
}

// In place there is one buffer: the larger.
bool output_lies_in_input(const Shape& shape) { return shape.input_count > shape.output_count; }

std::size_t misalign_bytes(const Options& options) { return options.misalign * sizeof(std::uint64_t); }

}  // namespace

struct Measurement::Side {
  RowSpec spec;
  Shape shape;
  std::size_t element;
  bool in_place;
  std::byte* input;
  std::byte* output;
  Pattern pattern;
  CollectiveCall call;
  std::vector<Expected> expected;

  std::size_t input_bytes() const { return shape.input_count * element; }
  std::size_t output_bytes() const { return shape.output_count * element; }
};

Measurement::Measurement(Peer& peer, const CollectiveUnderTest& collective, const Options& options)
    : peer_(peer),
      collective_(collective),
      options_(options),
      input_capacity_(capacity(collective, options, peer.size()).input),
      output_capacity_(capacity(collective, options, peer.size()).output),
      input_(input_capacity_, misalign_bytes(options), options.memory),
      output_(output_capacity_, misalign_bytes(options), options.memory) {}

std::size_t Measurement::footprint(const CollectiveUnderTest& collective, const Options& options, int ranks) {
  const Capacity most = capacity(collective, options, ranks);
  return GuardedBuffer::footprint(most.input, misalign_bytes(options)) +
         GuardedBuffer::footprint(most.output, misalign_bytes(options));
}

Measurement::Side Measurement::side(const RowSpec& spec, bool in_place) {
  const std::size_t element = size_of(spec.type);
  const Place place{peer_.rank(), peer_.size(), spec.root};
  const Shape shape = collective_.shape(spec.size, element, place);
  // The buffers leave room for misaligned 8-byte elements; a smaller type is moved by as many of its own.
  const std::ptrdiff_t back = static_cast<std::ptrdiff_t>(options_.misalign * (sizeof(std::uint64_t) - element));
  std::byte* input = input_.data() - back;
  std::byte* output = output_.data() - back;
  if (in_place && output_lies_in_input(shape)) output = input + shape.output_in_input * element;
  if (in_place && !output_lies_in_input(shape)) input = output + shape.input_in_output * element;
  const CollectiveCall call{
      collective_.collective().value_or(Collective::barrier),
      input,
      output,
      shape.call_count,
      spec.type,
      spec.op,
      std::max(spec.root, 0),
      spec.op == ReduceOp::premul_sum ? std::optional(factor_of(spec.type, peer_.rank())) : std::nullopt};
  return {spec,
          shape,
          element,
          in_place,
          input,
          output,
          {spec.type, spec.op, peer_.size(), 0},
          call,
          collective_.expected(shape.call_count, place)};
}

Row Measurement::run(const RowSpec& spec) {
  Row row{spec, 0, 0, {}, {}, {}, {}};
  const Shape shape = collective_.shape(spec.size, size_of(spec.type), {peer_.rank(), peer_.size(), spec.root});
  row.reported_bytes = shape.reported_count * size_of(spec.type);
  row.count = shape.call_count;
  row.redop = collective_.reduces() ? name_of(spec.op) : "none";
  row.out_of_place = run_side(side(spec, false));
  if (collective_.in_place()) row.in_place = run_side(side(spec, true));
  if (!options_.more) return row;
  if (const auto collective = collective_.collective())
    row.plan = peer_.explain(*collective, shape.call_count, spec.type, spec.op);
  else
    row.plan.algorithm = "exchange";
  return row;
}

Timing Measurement::run_side(const Side& side) {
  Timing timing;
  const std::uint64_t seed = ++seed_;
  prepare(side, seed);
  peer_.barrier();
  if (options_.check > 0) {
    collective_.run(peer_, side.call);
    check(side, seed, timing);
  }
  iterate(side, options_.warmup);
  if (options_.touch) {
    timing.call_us = stamped_loop(side);
    const double total = [&] {
      double sum = 0;
      for (const double time : timing.call_us) sum += time;
      return sum;
    }();
    timing.time_us = over_ranks(total / options_.iterations);
  } else {
    timing.time_us = over_ranks(timed_loop(side));
    if (options_.stamps_each_call()) timing.call_us = stamped_loop(side);
  }
  // In place, the loop's calls have reduced their own results: nothing there is predictable any more.
  if (options_.check > 0 && !side.in_place) check(side, seed, timing);
  for (int i = 0; i < options_.check; ++i) {
    const std::uint64_t next = ++seed_;
    prepare(side, next);
    peer_.barrier();
    collective_.run(peer_, side.call);
    check(side, next, timing);
  }
  if (!timing.call_us.empty()) {  // the slowest rank's time of each call
    const std::size_t calls = timing.call_us.size();
    std::vector<double> all(calls * static_cast<std::size_t>(peer_.size()));
    peer_.gather(timing.call_us.data(), calls, all.data());
    for (std::size_t i = 0; i < all.size(); ++i)
      timing.call_us[i % calls] = std::max(timing.call_us[i % calls], all[i]);
    timing.call_us.erase(timing.call_us.begin(), timing.call_us.begin() + options_.skip);
  }
  timing.wrong = sum_over_ranks(timing.wrong);
  timing.out_of_bounds = sum_over_ranks(timing.out_of_bounds);
  return timing;
}

void Measurement::prepare(const Side& side, std::uint64_t seed) {
  Pattern pattern = side.pattern;
  pattern.seed = seed;
  std::memset(side.output, kPoison, side.output_bytes());
  fill_input(pattern, peer_.rank(), 0, side.shape.input_count, side.input);
  if (!side.in_place) {
    input_.arm(side.input, side.input_bytes());
    output_.arm(side.output, side.output_bytes());
  } else if (output_lies_in_input(side.shape)) {
    input_.arm(side.input, side.input_bytes());
  } else {
    output_.arm(side.output, side.output_bytes());
  }
}

// Bytes that were written outside the buffers.
std::size_t Measurement::violations(const Side& side) const {
  if (!side.in_place) return input_.violations() + output_.violations();
  return output_lies_in_input(side.shape) ? input_.violations() : output_.violations();
}

void Measurement::check(const Side& side, std::uint64_t seed, Timing& timing) {
  Pattern pattern = side.pattern;
  pattern.seed = seed;
  const auto judge = [&](const char* what, const Mismatch& mismatch) {
    if (mismatch.count == 0) return;
    timing.wrong += static_cast<double>(mismatch.count);
    complain(std::string(what) + " of " + std::string(collective_.name()) + " " + std::string(name_of(side.spec.type)) +
             " " + std::string(name_of(side.spec.op)) + " with " + std::to_string(side.shape.call_count) +
             " elements (" + (side.in_place ? "in place" : "out of place") + ") has " + std::to_string(mismatch.count) +
             " wrong elements: " + mismatch.text);
  };
  for (const Expected& part : side.expected) {
    const std::byte* data = side.output + part.at * side.element;
    const std::string what =
        side.expected.size() == 1 ? "the output" : "the output's part from element " + std::to_string(part.at) + " on";
    judge(what.c_str(), part.rank == Expected::kReduced ? check_reduced(pattern, data, part.count, part.from)
                                                        : check_input(pattern, part.rank, data, part.count, part.from));
  }
  if (!side.in_place)
    judge("the input, which must not change,", check_input(pattern, peer_.rank(), side.input, side.shape.input_count));
  const std::size_t outside = violations(side);
  if (outside > 0)
    complain(std::to_string(outside) + " bytes outside the buffers of " + std::string(collective_.name()) + " with " +
             std::to_string(side.shape.call_count) + " elements were written");
  timing.out_of_bounds += static_cast<double>(outside);
}

// Every cache line of the input is written (with what it holds), as by an application that makes new data.
void Measurement::touch_input(const Side& side) {
  const std::size_t bytes = side.input_bytes();
  for (std::size_t i = 0; i < bytes; i += kCacheLine) {
    volatile std::byte* byte = side.input + i;
    *byte = *byte;
  }
}

void Measurement::read_output(const Side& side) {
  const std::size_t bytes = side.output_bytes();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += kCacheLine)
    sum += std::to_integer<std::uint64_t>(*const_cast<const volatile std::byte*>(side.output + i));
  sink_ = sum;
}

void Measurement::iterate(const Side& side, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    if (options_.aggregate == 1) {
      collective_.run(peer_, side.call);
      if (options_.blocking == Blocking::barrier_each_call) peer_.barrier();
    } else {
      for (int call = 0; call < options_.aggregate; ++call) {
        collective_.start(peer_, side.call);
        if (options_.blocking == Blocking::barrier_each_call) peer_.finish(), peer_.barrier();
      }
      peer_.finish();
    }
    if (options_.blocking == Blocking::barrier_each_loop) peer_.barrier();
  }
}

// Microseconds of one call.
double Measurement::timed_loop(const Side& side) {
  peer_.barrier();
  const double begin = now_us(options_.cpu_time);
  iterate(side, options_.iterations);
  const double end = now_us(options_.cpu_time);
  peer_.barrier();
  return (end - begin) / options_.iterations / options_.aggregate;
}

// Microseconds of each iteration's calls, one by one; a barrier before each, so that a rank does not wait for peers
// that still touch their data.
std::vector<double> Measurement::stamped_loop(const Side& side) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(options_.iterations));
  for (int i = 0; i < options_.iterations; ++i) {
    if (options_.touch) touch_input(side);
    peer_.barrier();
    const double begin = now_us(options_.cpu_time);
    iterate(side, 1);
    times.push_back((now_us(options_.cpu_time) - begin) / options_.aggregate);
    if (options_.touch) read_output(side);
  }
  peer_.barrier();
  return times;
}

double Measurement::over_ranks(double mine) const {
  std::vector<double> all(static_cast<std::size_t>(peer_.size()));
  peer_.gather(&mine, 1, all.data());
  switch (options_.average) {
    case Average::rank0: return all.front();
    case Average::min: return *std::min_element(all.begin(), all.end());
    case Average::max: return *std::max_element(all.begin(), all.end());
    case Average::mean: break;
  }
  double sum = 0;
  for (const double time : all) sum += time;
  return sum / static_cast<double>(all.size());
}

double Measurement::sum_over_ranks(double mine) const {
  std::vector<double> all(static_cast<std::size_t>(peer_.size()));
  peer_.gather(&mine, 1, all.data());
  double sum = 0;
  for (const double value : all) sum += value;
  return sum;
}

void Measurement::complain(const std::string& text) {
  if (complaint_.empty()) complaint_ = text;
}

}  // namespace tutti::perf
