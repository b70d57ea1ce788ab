// The host kernels beside hand-written loops, in one interleaved run.
//
//   reduce_bench                                   all, with medians, spread and the ratios at the end
//   reduce_bench --benchmark_filter=sum2           Google Benchmark's flags; TUTTI_KERNELS chooses the table
//
// Names are CASE/WHO/BYTES: BYTES is the size of one buffer, WHO is tutti, or by hand / memcpy as the yardstick. 128
// KiB buffers stay in the second-level cache; 64 MiB buffers are beyond the third, and are written with streaming
// stores.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/host/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace tutti;

constexpr std::size_t kSmall = 128 << 10;
constexpr std::size_t kLarge = 64 << 20;

// Buffers of a size, each at another distance from a page border so that no two are a multiple of 4 KiB apart.
std::byte* buffer(std::size_t bytes, std::size_t index) {
  static std::map<std::pair<std::size_t, std::size_t>, std::vector<std::byte>> buffers;
  auto& memory = buffers[{bytes, index}];
  if (memory.empty()) memory.resize(bytes + 8192);
  auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  address = (address + 4095) / 4096 * 4096 + index * 320;
  return reinterpret_cast<std::byte*>(address);
}

// out = a + b as one would write it by hand: no NaN rule, no tail, aligned.
using HandLoop = void (*)(const float* a, const float* b, float* out, std::size_t count);

#if defined(__x86_64__)
template <bool kStreaming>
[[gnu::target("avx512f")]] void hand_avx512(const float* a, const float* b, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 64)
    for (std::size_t j = i; j < i + 64; j += 16) {
      const __m512 sum = _mm512_add_ps(_mm512_load_ps(a + j), _mm512_load_ps(b + j));
      kStreaming ? _mm512_stream_ps(out + j, sum) : _mm512_store_ps(out + j, sum);
    }
  if (kStreaming) _mm_sfence();
}

template <bool kStreaming>
[[gnu::target("avx2")]] void hand_avx2(const float* a, const float* b, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 32)
    for (std::size_t j = i; j < i + 32; j += 8) {
      const __m256 sum = _mm256_add_ps(_mm256_load_ps(a + j), _mm256_load_ps(b + j));
      kStreaming ? _mm256_stream_ps(out + j, sum) : _mm256_store_ps(out + j, sum);
    }
  if (kStreaming) _mm_sfence();
}

HandLoop hand_loop(bool streaming) {
  if (__builtin_cpu_supports("avx512f")) return streaming ? hand_avx512<true> : hand_avx512<false>;
  if (__builtin_cpu_supports("avx2")) return streaming ? hand_avx2<true> : hand_avx2<false>;
  return nullptr;
}
#else
HandLoop hand_loop(bool) { return nullptr; }
#endif

void report_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}

void sum_by_hand(benchmark::State& state, std::size_t bytes) {
  const HandLoop loop = hand_loop(bytes == kLarge);
  const auto* a = reinterpret_cast<const float*>(buffer(bytes, 0));
  const auto* b = reinterpret_cast<const float*>(buffer(bytes, 1));
  auto* out = reinterpret_cast<float*>(buffer(bytes, 2));
  for (auto _ : state) {
    loop(a, b, out, bytes / sizeof(float));
    benchmark::ClobberMemory();
  }
  report_bytes(state, 3 * bytes);
}

void sum_by_kernel(benchmark::State& state, DataType type, std::size_t ins, std::size_t outs, std::size_t bytes) {
  const runtime::ReduceFn reduce = kernels::host_kernels().reduce[static_cast<std::size_t>(type)][0];
  std::vector<runtime::ReduceInput> in;
  std::vector<runtime::ReduceOutput> out;
  for (std::size_t i = 0; i < ins; ++i) in.push_back({buffer(bytes, i)});
  for (std::size_t o = 0; o < outs; ++o) out.push_back({buffer(bytes, ins + o), bytes == kLarge});
  const runtime::ReduceArgs args{in, out, bytes / size_of(type)};
  for (auto _ : state) {
    reduce(args);
    benchmark::ClobberMemory();
  }
  report_bytes(state, (ins + outs) * bytes);
}

void copy_by_memcpy(benchmark::State& state, std::size_t bytes) {
  std::byte* in = buffer(bytes, 0);
  std::byte* out = buffer(bytes, 1);
  for (auto _ : state) {
    std::memcpy(out, in, bytes);
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2 * bytes);
}

void copy_by_kernel(benchmark::State& state, std::size_t outs, std::size_t bytes) {
  const runtime::CopyFn copy = kernels::host_kernels().copy;
  std::vector<runtime::ReduceOutput> out;
  for (std::size_t o = 0; o < outs; ++o) out.push_back({buffer(bytes, 1 + o), bytes == kLarge});
  for (auto _ : state) {
    copy(out, buffer(bytes, 0), bytes);
    benchmark::ClobberMemory();
  }
  report_bytes(state, (1 + outs) * bytes);
}

void register_cases(std::size_t bytes) {
  const std::string size = "/" + std::to_string(bytes);
  const auto add = [&](const std::string& name, auto... arguments) {
    benchmark::RegisterBenchmark((name + size).c_str(), arguments...);
  };
  if (hand_loop(false) != nullptr) add("sum2_float/hand", sum_by_hand, bytes);
  add("sum2_float/tutti", sum_by_kernel, DataType::float32, 2, 1, bytes);
  add("sum2to2_float/tutti", sum_by_kernel, DataType::float32, 2, 2, bytes);
  add("sum3_float/tutti", sum_by_kernel, DataType::float32, 3, 1, bytes);
  add("sum4to4_float/tutti", sum_by_kernel, DataType::float32, 4, 4, bytes);
  add("sum4_float/tutti", sum_by_kernel, DataType::float32, 4, 1, bytes);
  if (bytes == kSmall) add("sum8_float/tutti", sum_by_kernel, DataType::float32, 8, 1, bytes);
  for (const DataType type : {DataType::int32, DataType::float64, DataType::float16, DataType::bfloat16,
                              DataType::float8_e4m3, DataType::float8_e5m2})
    add("sum2_" + std::string(name_of(type)) + "/tutti", sum_by_kernel, type, 2, 1, bytes);
  add("copy/memcpy", copy_by_memcpy, bytes);
  add("copy/tutti", copy_by_kernel, 1, bytes);
  add("copy_to2/tutti", copy_by_kernel, 2, bytes);
}

// The console's table, then the ratio of the medians of processor time (others may be using the cores) wherever a case
// has a yardstick.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Aggregate && run.aggregate_name == "median")
        medians_[run.run_name.function_name] = run.GetAdjustedCPUTime();
    ConsoleReporter::ReportRuns(runs);
  }

  void Finalize() override {
    for (const auto& [name, time] : medians_)
      for (const std::string yardstick : {"/hand/", "/memcpy/"}) {
        const std::size_t at = name.find(yardstick);
        if (at == std::string::npos) continue;
        const std::string ours = name.substr(0, at) + "/tutti/" + name.substr(at + yardstick.size());
        if (medians_.count(ours) != 0)
          std::printf("%s takes %.3f of the processor time of %s\n", ours.c_str(), medians_[ours] / time, name.c_str());
      }
  }

 private:
  std::map<std::string, double> medians_;
};

}  // namespace

int main(int argc, char** argv) {
  // Defaults, which flags on the command line override.
  std::vector<std::string> words{argv[0], "--benchmark_enable_random_interleaving=true", "--benchmark_repetitions=9",
                                 "--benchmark_min_time=0.05", "--benchmark_display_aggregates_only=true"};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;

  register_cases(kSmall);
  register_cases(kLarge);
  benchmark::AddCustomContext("kernels", std::string(kernels::host_kernels().name));
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
}
