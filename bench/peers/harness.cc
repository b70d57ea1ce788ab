#include "bench/peers/harness.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>

#include "bench/perf/statistics.h"

namespace tutti::peers {
namespace {

// A waiting rank gives its core away after these polls; soon where ranks share cores.
constexpr int kPollsOnOwnCore = 300;
constexpr int kPollsOnSharedCore = 20;
// After these yields it sleeps between polls, so that peers that sleep themselves find a core for their threads.
constexpr int kYieldsBeforeSleep = 5000;
constexpr std::chrono::microseconds kSleep{50};
constexpr std::chrono::seconds kPatience{60};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

[[noreturn]] void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <class Ready>
void wait_until(int polls, const Ready& ready) {
  for (int poll = 0; poll < polls; ++poll) {
    if (ready()) return;
    relax();
  }
  for (int yields = 0; yields < kYieldsBeforeSleep; ++yields) {
    if (ready()) return;
    sched_yield();
  }
  for (const Clock::time_point deadline = Clock::now() + kPatience; !ready();) {
    std::this_thread::sleep_for(kSleep);
    if (Clock::now() > deadline)
      fail("a rank did not come to the control page's barrier within 60 s; it may have died or hang in its library");
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', start)) {
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

template <class Number>
Number number_from(const std::string& flag, const std::string& text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    fail(flag + " is '" + text + "'; valid: a number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

std::vector<std::size_t> sizes_from(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (const std::string& part : split(text)) {
    sizes.push_back(number_from<std::size_t>("--sizes", part, sizeof(float), std::size_t{1} << 34));
    if (sizes.back() % sizeof(float) != 0) fail("--sizes has '" + part + "'; valid: bytes of whole float32 elements");
  }
  return sizes;
}

void choose_variants(Settings& settings, const std::string& text) {
  settings.touched = settings.untouched = false;
  for (const std::string& part : split(text)) {
    if (part == "touched")
      settings.touched = true;
    else if (part == "untouched")
      settings.untouched = true;
    else
      fail("--variants has '" + part + "'; valid: touched, untouched");
  }
}

}  // namespace

Settings Settings::from_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) fail(flag + " lacks its value");
    const std::string value = argv[i + 1];
    if (flag == "--page")
      settings.page = value;
    else if (flag == "--out")
      settings.out = value;
    else if (flag == "--sizes")
      settings.sizes = sizes_from(value);
    else if (flag == "--loop-ms")
      settings.loop_ms = number_from<double>(flag, value, 0.1, 60000);
    else if (flag == "--point-ms")
      settings.point_ms = number_from<double>(flag, value, 1, 600000);
    else if (flag == "--ranks")
      settings.ranks = number_from<int>(flag, value, 1, kMostRanks);
    else if (flag == "--bind")
      settings.bind = number_from<int>(flag, value, 0, 1) == 1;
    else if (flag == "--memory" && (value == "ordinary" || value == "tutti"))
      settings.tutti_memory = value == "tutti";
    else if (flag == "--memory")
      fail("--memory is '" + value + "'; valid: ordinary, tutti");
    else if (flag == "--variants")
      choose_variants(settings, value);
    else
      fail("unknown flag '" + flag +
           "'; valid: --page, --out, --sizes, --loop-ms, --point-ms, --variants, --ranks, "
           "--bind, --memory");
  }
  if (settings.page.empty() || settings.out.empty() || settings.sizes.empty())
    fail("--page, --out and --sizes are needed; bench/peers/run.py gives them");
  return settings;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') fail(std::string(name) + " is not set; run.py sets it");
  return value;
}

bool ranks_share_cores(int ranks) { return ranks > sysconf(_SC_NPROCESSORS_ONLN); }

bool bind_to_cpu(int index) {
  cpu_set_t usable, one;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  index %= CPU_COUNT(&usable);
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &usable) && index-- == 0) CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

ControlPage::ControlPage(const std::string& path, int rank, int ranks)
    : rank_(rank), ranks_(ranks), polls_before_yield_(ranks_share_cores(ranks) ? kPollsOnSharedCore : kPollsOnOwnCore) {
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    fail("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks; valid: 1 to 64 ranks");
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) fail_errno("cannot open the control page " + path);
  const bool sized = ftruncate(file, sizeof(Layout)) == 0;  // zeros; the same size from every rank
  void* mapped = sized ? mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  close(file);
  errno = error;
  if (mapped == MAP_FAILED) fail_errno("cannot map the control page " + path);
  layout_ = static_cast<Layout*>(mapped);
  barrier();
}

ControlPage::~ControlPage() { munmap(layout_, sizeof(Layout)); }

void ControlPage::barrier() {
  const std::uint32_t generation = layout_->generation.value.load(std::memory_order_acquire);
  if (layout_->arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
    layout_->arrived.value.store(0, std::memory_order_relaxed);
    layout_->generation.value.store(generation + 1, std::memory_order_release);
    return;
  }
  wait_until(polls_before_yield_,
             [&] { return layout_->generation.value.load(std::memory_order_acquire) != generation; });
}

void ControlPage::max_each(std::vector<double>& values) {
  for (std::size_t begin = 0; begin < values.size(); begin += kCellValues) {
    const std::size_t count = std::min(kCellValues, values.size() - begin);
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), count, layout_->cells[rank_].values);
    barrier();
    for (int rank = 0; rank < ranks_; ++rank)
      for (std::size_t i = 0; i < count; ++i)
        values[begin + i] = std::max(values[begin + i], layout_->cells[rank].values[i]);
    barrier();  // nobody overwrites what another has yet to read
  }
}

void ControlPage::all_gather(const void* mine, std::size_t bytes, void* all) {
  for (std::size_t begin = 0; begin < bytes; begin += sizeof(Cell)) {
    const std::size_t part = std::min(sizeof(Cell), bytes - begin);
    std::memcpy(layout_->cells[rank_].values, static_cast<const char*>(mine) + begin, part);
    barrier();
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank)
      std::memcpy(static_cast<char*>(all) + rank * bytes + begin, layout_->cells[rank].values, part);
    barrier();  // nobody overwrites what another has yet to read
  }
}

double ControlPage::max(double value) {
  std::vector<double> values{value};
  max_each(values);
  return values.front();
}

double ControlPage::sum(double value) {
  layout_->cells[rank_].values[0] = value;
  barrier();
  double total = 0;
  for (int rank = 0; rank < ranks_; ++rank) total += layout_->cells[rank].values[0];
  barrier();
  return total;
}

void write_input(float* data, std::size_t count, int rank, std::uint32_t version) {
  for (std::size_t i = 0; i < count; ++i) data[i] = value_of(i, rank, version);
}

std::size_t wrong_elements(const float* output, std::size_t count, int ranks, std::uint32_t version) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < ranks; ++rank) expected += value_of(i, rank, version);
    wrong += output[i] != expected ? 1 : 0;
  }
  return wrong;
}

std::uint32_t read_all(const float* data, std::size_t count) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::bit_cast<std::uint32_t>(data[i]);
  return sum;
}

Buffer::Buffer(std::size_t count) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes = (count * sizeof(float) + kPage - 1) / kPage * kPage + kPage;
  void* memory = std::aligned_alloc(kPage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  data_.reset(static_cast<float*>(memory));
}

void Buffer::Free::operator()(float* data) const { std::free(data); }

double cpu_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

void summarise_samples(const std::vector<double>& samples, Row& row) {
  row.us = perf::median(samples);
  row.quartile_1 = perf::quantile(samples, 0.25);
  row.quartile_3 = perf::quantile(samples, 0.75);
  row.mean = perf::mean(samples);
}

void write_row(const Settings& settings, const Row& row) {
  std::ofstream file(settings.out, std::ios::app);
  file.precision(9);
  file << row.algorithm << '\t' << row.variant << '\t' << row.bytes << '\t' << row.us << '\t' << row.calls << '\t'
       << row.wrong << '\t' << row.quartile_1 << '\t' << row.quartile_3 << '\t' << row.mean << '\t' << row.cpu_us
       << '\t' << row.detail << '\n';
  if (!file.flush()) fail("cannot write the results to " + settings.out);
}

}  // namespace tutti::peers
