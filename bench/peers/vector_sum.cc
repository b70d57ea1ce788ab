#include "bench/peers/vector_sum.h"

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti::peers {
namespace {

#define ALWAYS_INLINE __attribute__((always_inline)) inline

// Vectors by width; loads and stores may be unaligned. A function compiled for a wider instruction set takes the wider
// one.
struct Narrow {
  typedef float Vector __attribute__((vector_size(16), aligned(4), may_alias));
};
struct Wide {
  typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));
};
struct Widest {
  typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
};

struct OrdinaryStore {
  template <class Width>  // not the vector type itself: a deduced type loses its alignment
  static ALWAYS_INLINE void put(float* to, const typename Width::Vector& value) {
    *reinterpret_cast<typename Width::Vector*>(to) = value;
  }
};

template <class Width, class Store>
ALWAYS_INLINE void copy_with(float* to, const float* from, std::size_t count) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);
  std::size_t i = 0;
  for (; i + 4 * kFloats <= count; i += 4 * kFloats) {
    const Vector a = *reinterpret_cast<const Vector*>(from + i);
    const Vector b = *reinterpret_cast<const Vector*>(from + i + kFloats);
    const Vector c = *reinterpret_cast<const Vector*>(from + i + 2 * kFloats);
    const Vector d = *reinterpret_cast<const Vector*>(from + i + 3 * kFloats);
    Store::template put<Width>(to + i, a);
    Store::template put<Width>(to + i + kFloats, b);
    Store::template put<Width>(to + i + 2 * kFloats, c);
    Store::template put<Width>(to + i + 3 * kFloats, d);
  }
  for (; i < count; ++i) to[i] = from[i];
}

template <class Width, class Store>
ALWAYS_INLINE void sum_with(const float* const* sources, int source_count, float* const* targets, int target_count,
                            std::size_t begin, std::size_t end) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kFloats = sizeof(Vector) / sizeof(float);
  std::size_t i = begin;
  for (; i + 4 * kFloats <= end; i += 4 * kFloats) {
    const float* first = sources[0] + i;
    Vector a = *reinterpret_cast<const Vector*>(first);
    Vector b = *reinterpret_cast<const Vector*>(first + kFloats);
    Vector c = *reinterpret_cast<const Vector*>(first + 2 * kFloats);
    Vector d = *reinterpret_cast<const Vector*>(first + 3 * kFloats);
    for (int s = 1; s < source_count; ++s) {
      const float* next = sources[s] + i;
      a += *reinterpret_cast<const Vector*>(next);
      b += *reinterpret_cast<const Vector*>(next + kFloats);
      c += *reinterpret_cast<const Vector*>(next + 2 * kFloats);
      d += *reinterpret_cast<const Vector*>(next + 3 * kFloats);
    }
    for (int t = 0; t < target_count; ++t) {
      float* to = targets[t] + i;
      Store::template put<Width>(to, a);
      Store::template put<Width>(to + kFloats, b);
      Store::template put<Width>(to + 2 * kFloats, c);
      Store::template put<Width>(to + 3 * kFloats, d);
    }
  }
  for (; i < end; ++i) {
    float sum = sources[0][i];
    for (int s = 1; s < source_count; ++s) sum += sources[s][i];
    for (int t = 0; t < target_count; ++t) targets[t][i] = sum;
  }
}

using Copy = void (*)(float*, const float*, std::size_t);
using Sum = void (*)(const float* const*, int, float* const*, int, std::size_t, std::size_t);

void copy_narrow(float* to, const float* from, std::size_t count) { copy_with<Narrow, OrdinaryStore>(to, from, count); }
void sum_narrow(const float* const* sources, int source_count, float* const* targets, int target_count,
                std::size_t begin, std::size_t end) {
  sum_with<Narrow, OrdinaryStore>(sources, source_count, targets, target_count, begin, end);
}

#if defined(__x86_64__)
struct StreamingStore {
  template <class Width>
  static ALWAYS_INLINE void put(float* to, const typename Width::Vector& value) {
    static_assert(sizeof value == sizeof(__m128));
    _mm_stream_ps(to, value);
  }
};

__attribute__((target("avx2"))) void copy_wide(float* to, const float* from, std::size_t count) {
  copy_with<Wide, OrdinaryStore>(to, from, count);
}
__attribute__((target("avx2"))) void sum_wide(const float* const* sources, int source_count, float* const* targets,
                                              int target_count, std::size_t begin, std::size_t end) {
  sum_with<Wide, OrdinaryStore>(sources, source_count, targets, target_count, begin, end);
}
__attribute__((target("avx512f"))) void copy_widest(float* to, const float* from, std::size_t count) {
  copy_with<Widest, OrdinaryStore>(to, from, count);
}
__attribute__((target("avx512f"))) void sum_widest(const float* const* sources, int source_count, float* const* targets,
                                                   int target_count, std::size_t begin, std::size_t end) {
  sum_with<Widest, OrdinaryStore>(sources, source_count, targets, target_count, begin, end);
}

Copy choose_copy() {
  if (__builtin_cpu_supports("avx512f")) return copy_widest;
  return __builtin_cpu_supports("avx2") ? copy_wide : copy_narrow;
}
Sum choose_sum() {
  if (__builtin_cpu_supports("avx512f")) return sum_widest;
  return __builtin_cpu_supports("avx2") ? sum_wide : sum_narrow;
}

bool streamable(const float* to) { return reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128) == 0; }
#else
Copy choose_copy() { return copy_narrow; }
Sum choose_sum() { return sum_narrow; }
#endif

const Copy kCopy = choose_copy();
const Sum kSum = choose_sum();

}  // namespace

void copy_floats(float* to, const float* from, std::size_t count) { kCopy(to, from, count); }

void sum_floats(const float* const* sources, int source_count, float* const* targets, int target_count,
                std::size_t begin, std::size_t end) {
  kSum(sources, source_count, targets, target_count, begin, end);
}

void copy_floats_streaming(float* to, const float* from, std::size_t count) {
#if defined(__x86_64__)
  if (streamable(to)) {
    copy_with<Narrow, StreamingStore>(to, from, count);
    _mm_sfence();  // these stores are ordered with the flag that follows only by this
    return;
  }
#endif
  copy_floats(to, from, count);
}

void sum_floats_streaming(const float* const* sources, int source_count, float* const* targets, int target_count,
                          std::size_t begin, std::size_t end) {
#if defined(__x86_64__)
  bool all = true;
  for (int t = 0; t < target_count; ++t) all = all && streamable(targets[t] + begin);
  if (all) {
    sum_with<Narrow, StreamingStore>(sources, source_count, targets, target_count, begin, end);
    _mm_sfence();
    return;
  }
#endif
  sum_floats(sources, source_count, targets, target_count, begin, end);
}

}  // namespace tutti::peers
