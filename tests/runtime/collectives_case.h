// What the collectives of communicators are called with in tests, and what they must give, reckoned without the
// library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tutti/types.h"

namespace tutti::test {

// One call at one rank.
struct Case {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  bool null_where_unused = true;
  std::size_t misalign = 0;
};

inline std::string in_words(const Case& c, int rank) {
  return std::string(name_of(c.collective)) + " of " + std::to_string(c.count) + " x " + std::string(name_of(c.type)) +
         " " + std::string(name_of(c.op)) + ", root " + std::to_string(c.root) +
         (c.in_place ? ", in place" : ", out of place") + ", at rank " + std::to_string(rank);
}

inline bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter;
}

// A number as the type's bits. The test's numbers are exact in every type.
inline std::uint64_t bits_of(double number, DataType type) {
  struct Format {
    int exponent_bits, mantissa_bits;
  };
  std::optional<Format> format;
  switch (type) {
    case DataType::float16: format = {5, 10}; break;
    case DataType::bfloat16: format = {8, 7}; break;
    case DataType::float32: format = {8, 23}; break;
    case DataType::float64: format = {11, 52}; break;
    case DataType::float8_e4m3: format = {4, 3}; break;
    case DataType::float8_e5m2: format = {5, 2}; break;
    default: return static_cast<std::uint64_t>(number);
  }
  int exponent = 0;
  const double mantissa = std::frexp(number, &exponent) * 2 - 1;  // 1.m x 2^(exponent - 1)
  const auto bias = (1 << (format->exponent_bits - 1)) - 1;
  return static_cast<std::uint64_t>(exponent - 1 + bias) << format->mantissa_bits |
         static_cast<std::uint64_t>(std::ldexp(mantissa, format->mantissa_bits));
}

// Element i of block `block` of a rank's input. Reductions of four of these are exact in every type.
inline int number(const Case& c, int rank, std::size_t block, std::size_t i) {
  const std::size_t mixed = static_cast<std::size_t>(rank) * 7 + block * 5 + i * 3 + i / 7;
  if (c.type == DataType::boolean) return static_cast<int>(mixed % 2);
  return static_cast<int>(reduces(c.collective) ? 1 + mixed % 2 : 1 + mixed % 100);
}

// What premul_sum multiplies a rank's input by.
inline int factor_of(const Case& c, int rank) {
  return is_floating(c.type) && size_of(c.type) == 1 ? rank % 2 : rank + 1;
}

inline Factor factor_at(const Case& c, int rank) {
  if (is_floating(c.type) && size_of(c.type) == 1) return static_cast<float>(factor_of(c, rank));
  const std::uint64_t bits = bits_of(factor_of(c, rank), c.type);
  return Factor::from_element(c.type, &bits);
}

inline double reduced_bits(const Case& c, int ranks, std::size_t block, std::size_t i) {
  int result = number(c, 0, block, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int next = number(c, rank, block, i);
    const bool all = c.op == ReduceOp::bit_and || c.op == ReduceOp::prod || c.op == ReduceOp::min;
    result = all ? result & next : c.op == ReduceOp::bit_xor ? result ^ next : result | next;
  }
  return result;
}

inline double reduced(const Case& c, int ranks, std::size_t block, std::size_t i) {
  const bool bitwise = c.op == ReduceOp::bit_and || c.op == ReduceOp::bit_or || c.op == ReduceOp::bit_xor;
  if (bitwise || c.type == DataType::boolean) return reduced_bits(c, ranks, block, i);
  if (c.op == ReduceOp::premul_sum) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += factor_of(c, rank) * number(c, rank, block, i);
    return sum;
  }
  double result = number(c, 0, block, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = number(c, rank, block, i);
    switch (c.op) {
      case ReduceOp::prod: result *= next; break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::min: result = std::min(result, next); break;
      default: result += next;
    }
  }
  return c.op == ReduceOp::avg ? result / ranks : result;  // bits_of() truncates for integers
}

// Blocks of a rank's buffers; 0: the rank has none.
inline std::size_t input_blocks(const Case& c, int ranks, int rank) {
  switch (c.collective) {
    case Collective::broadcast: return rank == c.root ? 1 : 0;
    case Collective::reduce_scatter:
    case Collective::all_to_all: return static_cast<std::size_t>(ranks);
    case Collective::scatter: return rank == c.root ? static_cast<std::size_t>(ranks) : 0;
    default: return 1;
  }
}
inline std::size_t output_blocks(const Case& c, int ranks, int rank) {
  switch (c.collective) {
    case Collective::reduce: return rank == c.root ? 1 : 0;
    case Collective::all_gather:
    case Collective::all_to_all: return static_cast<std::size_t>(ranks);
    case Collective::gather: return rank == c.root ? static_cast<std::size_t>(ranks) : 0;
    default: return 1;
  }
}

inline double output_number(const Case& c, int ranks, int rank, std::size_t block, std::size_t i) {
  const auto self = static_cast<std::size_t>(rank);
  const int other = static_cast<int>(block);
  switch (c.collective) {
    case Collective::all_reduce:
    case Collective::reduce: return reduced(c, ranks, 0, i);
    case Collective::reduce_scatter: return reduced(c, ranks, self, i);
    case Collective::broadcast: return number(c, c.root, 0, i);
    case Collective::scatter: return number(c, c.root, self, i);
    case Collective::all_to_all: return number(c, other, self, i);
    default: return number(c, other, 0, i);
  }
}

// Where in one piece of memory the buffers begin, in blocks, when the call is in place.
struct Overlay {
  std::size_t input = 0, output = 0;
};
inline Overlay overlay_of(const Case& c, int rank) {
  const auto self = static_cast<std::size_t>(rank);
  switch (c.collective) {
    case Collective::all_gather:
    case Collective::gather: return {self, 0};
    case Collective::reduce_scatter:
    case Collective::scatter: return {0, self};
    default: return {};
  }
}

}  // namespace tutti::test
