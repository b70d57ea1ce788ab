// Why every partial reduction, in any order, is exact.
//
// Integers wrap around: addition and multiplication modulo 2^bits are associative whatever the values.
// min and max do not round, and what works bit by bit does not either.
//
// Float sum. With precision p every integer up to 2^p is exact, and so is its product with a power of two. Rank r adds
// k_r * 2^s, where k_r is a whole number other than 0 and the scale 2^s is common to all ranks at one index. Of n
// ranks, active = min(n, 2^p) take part at an index (the rest add 0: with 3 bits of mantissa and 9 ranks not all can),
// each with |k_r| <= 2^p / active. So every sum of any subset is a whole number of at most 2^p times 2^s: exact, also
// when a partial sum is rounded to the type between two steps.
//
// Float avg. The average is taken by dividing the sum (float32, float64, bfloat16) or by scaling each input (float16,
// float8). Inputs are n * k_r * 2^s, so that both give whole numbers: with n = odd * 2^t, n * K needs the bits of
// odd * K, hence all |K| are kept up to 2^p / odd. The result is K * 2^s, exactly, if the division is correctly
// rounded; an implementation that multiplies by a rounded 1/n is off by a relative 2^-24 (it scales in float32), which
// the rounding to a 16- or 8-bit type removes; for float32 and float64 the tolerance is 2 units in the last place. All
// ranks have one sign at an index: where values that are off by 2^-24 cancelled to 0, a remainder would stay.
// When odd > 2^p (float8 with 9, 11, 17 ranks, ...) one rank alone adds k * 2^s, k < 2^p, at an index, and the result
// is k * 2^s / n rounded to nearest. It cannot be a tie: a tie has p + 1 significant bits, and k * 2^j = n * tie would
// make odd divide k < odd.
//
// Float mulsum. As sum, with half as much for all |k_r| together, since factors are 1 and 2.
//
// Float prod. Rank r multiplies by +-2^e_r, one rank per index also by a mantissa of p bits; the |e_r| of all ranks
// add up to at most the budget that keeps every partial product a normal number.
#include "bench/perf/pattern.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/perf/number_format.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kBlock = 1024;  // elements judged at a time
constexpr std::uint64_t kOddConstant = 0x9e3779b97f4a7c15;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

// One reproducible stream of random words per (seed, rank); kCommon is the stream all ranks share.
struct Stream {
  static constexpr int kCommon = -1;
  std::uint64_t key;
  Stream(std::uint64_t seed, int rank)
      : key(mix(mix(seed + 1) + kOddConstant * static_cast<std::uint64_t>(rank + 2))) {}
  std::uint64_t at(std::uint64_t index) const { return mix(key + index * kOddConstant); }
};

// A whole number in [0, bound) from the upper 32 or all 64 bits of a random word.
std::uint64_t below(std::uint64_t word, std::uint64_t bound) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(word) * bound >> 64);
}

int trailing_zeros(int n) { return std::countr_zero(static_cast<unsigned>(n)); }

// What the ranks do at one index: which scale, the first of the `active` ranks (cyclically) that take part, and
// their sign where they have one in common.
struct Common {
  double scale;
  int first;
  bool negative;
};

// The numbers of one Pattern that do not depend on the index.
template <class F>
struct Budget {
  static constexpr int kScales = 8;
  int ranks, active;
  double unit = 1;           // inputs are multiples of it (avg: the number of ranks)
  bool one_sign = false;     // avg: all k_r at an index have the sign of Common
  bool single = false;       // avg where the number of ranks has too many bits: one rank alone takes part
  std::int64_t largest = 1;  // of |k_r| (sum, avg) or |e_r| (prod)
  std::array<double, kScales> scales{};

  explicit Budget(const Pattern& p) : ranks(p.ranks), active(p.ranks) {
    if (p.op == ReduceOp::prod) {
      const int exponents = std::min({F::kMaxExponent - 1, -F::kMinExponent, 96});
      active = std::min(ranks, exponents);
      largest = exponents / active;
      scales.fill(1);
      return;
    }
    const std::int64_t whole = std::int64_t{1} << F::kPrecision;
    int low = F::kMinExponent, high = F::kMaxExponent - F::kPrecision;
    std::int64_t total = p.op == ReduceOp::premul_sum ? whole / 2 : whole;
    if (p.op == ReduceOp::avg) {
      one_sign = true;
      total = whole / (ranks >> trailing_zeros(ranks));
      const int shrink = std::bit_width(static_cast<unsigned>(ranks));
      if (total == 0 || high - trailing_zeros(ranks) < low) {
        single = true, active = 1, largest = whole - 1, low += shrink;
      } else {
        unit = ranks, high -= trailing_zeros(ranks);
      }
    }
    if (!single) {
      active = static_cast<int>(std::min<std::int64_t>(ranks, total));
      largest = total / active;
    }
    low = std::max(low, -4), high = std::max(low, std::min(high, 3));
    for (int i = 0; i < kScales; ++i) scales[static_cast<std::size_t>(i)] = std::ldexp(1, low + i % (high - low + 1));
  }

  Common common(std::uint64_t word) const {
    return {scales[word & (kScales - 1)], static_cast<int>(below(word, static_cast<std::uint64_t>(ranks))),
            (word >> 8 & 1) != 0};
  }
  bool takes_part(int rank, int first) const { return (rank < first ? rank + ranks : rank) - first < active; }
  // k_r: never 0 for a rank that takes part, so that a lost or doubled contribution is seen.
  std::int64_t whole(std::uint64_t word, const Common& common_part) const {
    const auto k = static_cast<std::int64_t>(1 + below(word, static_cast<std::uint64_t>(largest)));
    return (one_sign ? common_part.negative : (word & 1) != 0) ? -k : k;
  }
  // +-2^e_r for every rank, times a random mantissa for the first.
  double factor(int rank, int first, std::uint64_t word) const {
    double value = word & 1 ? -1 : 1;
    const std::uint64_t choices = 2 * static_cast<std::uint64_t>(largest) + 1;
    if (takes_part(rank, first))
      value = std::ldexp(value, static_cast<int>(below(word, choices)) - static_cast<int>(largest));
    if (rank == first)
      value *= 1 + std::ldexp(static_cast<double>(word >> 1 & ((std::uint64_t{1} << (F::kPrecision - 1)) - 1)),
                              1 - F::kPrecision);
    return value;
  }
};

template <class F>
void float_input(const Pattern& p, int rank, std::size_t begin, std::size_t count, typename F::Storage* out) {
  const Stream own(p.seed, rank), common(p.seed, Stream::kCommon);
  if (p.op == ReduceOp::min || p.op == ReduceOp::max) {
    for (std::size_t i = 0; i < count; ++i) out[i] = F::finite(own.at(begin + i));
    return;
  }
  const Budget<F> budget(p);
  for (std::size_t i = 0; i < count; ++i) {
    const Common c = budget.common(common.at(begin + i));
    const std::uint64_t word = own.at(begin + i);
    if (p.op == ReduceOp::prod)
      out[i] = F::encode(budget.factor(rank, c.first, word));
    else
      out[i] = budget.takes_part(rank, c.first)
                   ? F::encode(static_cast<double>(budget.whole(word, c)) * budget.unit * c.scale)
                   : F::encode(0);
  }
}

template <class F>
void float_reduced(const Pattern& p, std::size_t begin, std::size_t count, typename F::Storage* out) {
  std::vector<Stream> streams;
  for (int r = 0; r < p.ranks; ++r) streams.emplace_back(p.seed, r);
  const Stream common(p.seed, Stream::kCommon);
  const Budget<F> budget(p);
  for (std::size_t i = 0; i < count; ++i) {
    if (p.op == ReduceOp::min || p.op == ReduceOp::max) {
      auto best = F::finite(streams[0].at(begin + i));
      for (int r = 1; r < p.ranks; ++r) {
        const auto next = F::finite(streams[static_cast<std::size_t>(r)].at(begin + i));
        const double a = F::decode(best), b = F::decode(next);
        if (p.op == ReduceOp::min ? b < a : b > a) best = next;
      }
      out[i] = best;
      continue;
    }
    const Common c = budget.common(common.at(begin + i));
    if (p.op == ReduceOp::prod) {
      double product = 1;
      for (int r = 0; r < p.ranks; ++r)
        product *= budget.factor(r, c.first, streams[static_cast<std::size_t>(r)].at(begin + i));
      out[i] = F::encode(product);
      continue;
    }
    std::int64_t sum = 0;
    for (int a = 0; a < budget.active; ++a) {
      const int r = c.first + a < p.ranks ? c.first + a : c.first + a - p.ranks;
      const std::int64_t k = budget.whole(streams[static_cast<std::size_t>(r)].at(begin + i), c);
      sum += p.op == ReduceOp::premul_sum ? k * multiplier(r) : k;
    }
    const double value = static_cast<double>(sum) * c.scale;
    out[i] = F::encode(budget.single ? value / p.ranks : value);
  }
}

std::uint64_t integer_value(const Pattern& p, std::uint64_t word) {
  if (p.op == ReduceOp::prod) return word | 1;  // odd factors: a product never sticks at 0
  if (p.op != ReduceOp::bit_and && p.op != ReduceOp::bit_or) return word;
  // About one rank has another bit than the rest: else hardly any bit of the result would be 1, or 0.
  std::uint64_t rare = word;
  for (unsigned more = std::bit_width(static_cast<unsigned>(p.ranks)); more > 2; --more) rare &= word = mix(word);
  return p.op == ReduceOp::bit_or ? rare : ~rare;
}

template <class T>
T reduce_integers(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::bit_and: return static_cast<T>(a & b);
    case ReduceOp::bit_or: return static_cast<T>(a | b);
    case ReduceOp::bit_xor: return static_cast<T>(a ^ b);
    case ReduceOp::prod: return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: break;
  }
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class T>
void integer_reduced(const Pattern& p, std::size_t begin, std::size_t count, T* out) {
  std::vector<Stream> streams;
  for (int r = 0; r < p.ranks; ++r) streams.emplace_back(p.seed, r);
  for (std::size_t i = 0; i < count; ++i) {
    T result{};
    for (int r = 0; r < p.ranks; ++r) {
      std::uint64_t word = integer_value(p, streams[static_cast<std::size_t>(r)].at(begin + i));
      if (p.op == ReduceOp::premul_sum) word *= static_cast<std::uint64_t>(multiplier(r));
      result = r == 0 ? static_cast<T>(word) : reduce_integers(p.op, result, static_cast<T>(word));
    }
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    out[i] = p.op == ReduceOp::avg ? static_cast<T>(result / static_cast<Wide>(p.ranks)) : result;
  }
}

// One rank in `ranks` differs from the others, for "and" as for "or": else hardly any result would be 1, or 0.
bool boolean_value(const Pattern& p, std::uint64_t word) {
  const bool rare = below(word, static_cast<std::uint64_t>(std::max(p.ranks, 2))) == 0;
  const bool conjunction = p.op == ReduceOp::prod || p.op == ReduceOp::min || p.op == ReduceOp::bit_and;
  return p.op == ReduceOp::bit_xor ? (word & 1) != 0 : rare != conjunction;
}

void boolean_reduced(const Pattern& p, std::size_t begin, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    int ones = 0;
    for (int r = 0; r < p.ranks; ++r) ones += boolean_value(p, Stream(p.seed, r).at(begin + i)) ? 1 : 0;
    switch (p.op) {
      case ReduceOp::prod:
      case ReduceOp::min:
      case ReduceOp::bit_and: out[i] = ones == p.ranks; break;
      case ReduceOp::bit_xor: out[i] = ones % 2 == 1; break;
      default: out[i] = ones > 0;
    }
  }
}

template <class Bits>
std::uint64_t distance(Bits a, Bits b) {
  // Sign and magnitude to one ordered line, so that the difference counts representable values.
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto line = [](Bits x) { return static_cast<Bits>(x & kSign ? kSign - (x & ~kSign) : kSign + x); };
  return line(a) > line(b) ? line(a) - line(b) : line(b) - line(a);
}

bool equal(const std::byte* got, const std::byte* want, DataType type, std::uint64_t allowed) {
  const std::size_t bytes = size_of(type);
  if (std::memcmp(got, want, bytes) == 0) return true;
  if (allowed == 0) return false;
  std::uint64_t a = 0, b = 0;
  std::memcpy(&a, got, bytes), std::memcpy(&b, want, bytes);
  if (type == DataType::float64) return distance<std::uint64_t>(a, b) <= allowed;
  return distance<std::uint32_t>(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)) <= allowed;
}

std::string hexadecimal(const std::byte* data, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, bytes);  // little-endian hosts only, as the library
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%0*llx", static_cast<int>(2 * bytes),
                static_cast<unsigned long long>(value));
  return text.data();
}

template <class Fill>
Mismatch check(DataType type, const void* data, std::size_t count, std::uint64_t allowed, Fill fill) {
  alignas(64) std::array<std::byte, kBlock * 8> want;
  const std::size_t bytes = size_of(type);
  const auto* got = static_cast<const std::byte*>(data);
  Mismatch result;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    fill(begin, n, want.data());
    const std::byte* block = got + begin * bytes;
    if (std::memcmp(block, want.data(), n * bytes) == 0) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (equal(block + i * bytes, want.data() + i * bytes, type, allowed)) continue;
      if (result.count++ > 0) continue;
      result.first = begin + i;
      result.text = "element " + std::to_string(begin + i) + " is " + hexadecimal(block + i * bytes, bytes) +
                    ", expected " + hexadecimal(want.data() + i * bytes, bytes);
    }
  }
  return result;
}

}  // namespace

int multiplier(int rank) { return 1 + rank % 2; }

Factor factor_of(DataType type, int rank) {
  return with_format(type, [&]<class F>() -> Factor {
    using T = typename F::Storage;
    if constexpr (!F::kFloat || std::is_same_v<T, double>)
      return static_cast<T>(multiplier(rank));
    else
      return static_cast<float>(multiplier(rank));
  });
}

void fill_input(const Pattern& p, int rank, std::size_t begin, std::size_t count, void* data) {
  with_format(p.type, [&]<class F>() {
    auto* out = static_cast<typename F::Storage*>(data);
    if constexpr (F::kFloat) {
      float_input<F>(p, rank, begin, count, out);
    } else if constexpr (std::is_same_v<F, Boolean>) {
      const Stream own(p.seed, rank);
      for (std::size_t i = 0; i < count; ++i) out[i] = boolean_value(p, own.at(begin + i));
    } else {
      const Stream own(p.seed, rank);
      for (std::size_t i = 0; i < count; ++i)
        out[i] = static_cast<typename F::Storage>(integer_value(p, own.at(begin + i)));
    }
  });
}

void fill_reduced(const Pattern& p, std::size_t begin, std::size_t count, void* data) {
  with_format(p.type, [&]<class F>() {
    auto* out = static_cast<typename F::Storage*>(data);
    if constexpr (F::kFloat)
      float_reduced<F>(p, begin, count, out);
    else if constexpr (std::is_same_v<F, Boolean>)
      boolean_reduced(p, begin, count, out);
    else
      integer_reduced(p, begin, count, out);
  });
}

Mismatch check_reduced(const Pattern& p, const void* data, std::size_t count, std::size_t begin) {
  return check(p.type, data, count, tolerance(p),
               [&](std::size_t at, std::size_t n, void* want) { fill_reduced(p, begin + at, n, want); });
}

Mismatch check_input(const Pattern& p, int rank, const void* data, std::size_t count, std::size_t begin) {
  return check(p.type, data, count, 0,
               [&](std::size_t at, std::size_t n, void* want) { fill_input(p, rank, begin + at, n, want); });
}

std::uint64_t tolerance(const Pattern& p) {
  const bool wide = p.type == DataType::float32 || p.type == DataType::float64;
  return wide && p.op == ReduceOp::avg && !std::has_single_bit(static_cast<unsigned>(p.ranks)) ? 2 : 0;
}

}  // namespace tutti::perf
