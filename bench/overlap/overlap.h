// How much of an all-reduce hides behind computation, measured alike for every library.
//
// Per size and rank, each figure the median over calls of the slowest rank's time:
//   blocking  one blocking all-reduce
//   compute   a computation of the rank's own, on data in its L1 cache, calibrated to about the same time
//   both      start the all-reduce, compute, wait
//   polled    the same, with the computation in eight pieces and a look at the operation after each
// Hidden is (blocking + compute - both) / blocking: 1 if the all-reduce costs nothing besides the computation, 0 if it
// costs what it costs alone. Where every core has a rank that computes, what the processor itself must do (copy and
// add) cannot hide; only waiting can.
#pragma once

#include <array>
#include <vector>

#include "bench/peers/harness.h"

namespace tutti::overlap {

using peers::Clock;
using peers::ControlPage;
using peers::microseconds;

// Keeps the core busy: about `units` times a few microseconds.
inline float compute(std::array<float, 1024>& data, int units) {
  for (int unit = 0; unit < units; ++unit)
    for (float& x : data) x = x * 0.999f + 0.001f;
  return data[17];
}

constexpr int kPieces = 8;

// `library` has reduce(), blocking; start(); done(), a look; wait().
template <class Library>
void measure(const peers::Settings& settings, ControlPage& page, std::size_t bytes, Library& library) {
  std::array<float, 1024> data{};
  const auto median_of = [&](auto&& call) {
    std::vector<double> times;
    double spent = 0;
    for (int i = 0; i < 7 || (spent < settings.loop_ms * 1000 && i < 2000); ++i) {
      page.barrier();
      const Clock::time_point before = Clock::now();
      call();
      times.push_back(page.max(microseconds(Clock::now() - before)));
      spent += times.back();
    }
    peers::Row row;
    peers::summarise_samples(times, row);
    return row;
  };
  const auto report = [&](const char* what, peers::Row row) {
    row.algorithm = what;
    row.variant = "overlap";
    row.bytes = bytes;
    if (page.rank() == 0) peers::write_row(settings, row);
    return row.us;
  };
  for (int i = 0; i < 3; ++i) library.reduce();
  const double alone = report("blocking", median_of([&] { library.reduce(); }));
  const double unit = median_of([&] { compute(data, 64); }).us / 64;
  const int pieces = static_cast<int>(alone / unit / kPieces) + 1;
  volatile float sink = 0;
  report("compute", median_of([&] { sink = compute(data, pieces * kPieces); }));
  report("both", median_of([&] {
           library.start();
           sink = compute(data, pieces * kPieces);
           library.wait();
         }));
  report("polled", median_of([&] {
           library.start();
           for (int piece = 0; piece < kPieces; ++piece) {
             sink = compute(data, pieces);
             library.done();
           }
           library.wait();
         }));
}

}  // namespace tutti::overlap
