// The data of a checked collective: inputs that every rank can compute for every other rank, and whose reduction is
// exactly predictable whatever the order of the operands, so that a result is right or wrong, never "close".
//
// A value depends on (seed, rank, index, number of ranks) through a hash: neighbouring elements, ranks and seeds
// differ, so an element in the wrong place, a chunk of another rank and the result of an earlier call are all seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/types.h"

namespace tutti::perf {

struct Pattern {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 1;
  std::uint64_t seed = 0;
};

// What mulsum (ReduceOp::premul_sum) multiplies a rank's input by: as a number, and as the library takes it.
int multiplier(int rank);
Factor factor_of(DataType type, int rank);

// Elements [begin, begin + count) of what `rank` contributes.
void fill_input(const Pattern& pattern, int rank, std::size_t begin, std::size_t count, void* data);

// Elements [begin, begin + count) of the reduction over all ranks.
void fill_reduced(const Pattern& pattern, std::size_t begin, std::size_t count, void* data);

struct Mismatch {
  std::size_t count = 0;  // elements that differ from what is expected
  std::size_t first = 0;  // index of the first of them
  std::string text;       // "element 17 is 0x3f800000, expected 0x40000000"; empty when all are right
};

// `data` is elements [begin, begin + count) of the reduction, or of what `rank` contributed. Indices count from `data`.
Mismatch check_reduced(const Pattern& pattern, const void* data, std::size_t count, std::size_t begin = 0);
Mismatch check_input(const Pattern& pattern, int rank, const void* data, std::size_t count, std::size_t begin = 0);

// How far a right result may lie from the exact one, in units in the last place: 2 for avg of float32 and float64 when
// the number of ranks is no power of two (multiplying by a rounded 1/n is allowed), else 0.
std::uint64_t tolerance(const Pattern& pattern);

}  // namespace tutti::perf
