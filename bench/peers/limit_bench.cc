// The hand-written all-reduces of reference.h under the harness, each at the sizes that it is meant for. This program
// forks its ranks (--ranks N), so that they share what it has mapped.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "bench/peers/harness.h"
#include "bench/peers/reference.h"

namespace {

using namespace tutti::peers;

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kNoLimit = ~std::size_t{0};
constexpr std::size_t kPage = 4096;

// Inputs and outputs that all ranks map: two per rank, of the largest size.
class MappedBuffers {
 public:
  MappedBuffers(int ranks, std::size_t most_bytes)
      : stride_((most_bytes + kPage - 1) / kPage * kPage + kPage),
        memory_(2 * static_cast<std::size_t>(ranks) * stride_) {}

  float* input(int rank) const { return at(2 * static_cast<std::size_t>(rank)); }
  float* output(int rank) const { return at(2 * static_cast<std::size_t>(rank) + 1); }

 private:
  float* at(std::size_t index) const { return reinterpret_cast<float*>(memory_.data() + index * stride_); }

  std::size_t stride_;
  SharedMemory memory_;
};

struct View {
  float* floats;
  float* data() const { return floats; }
};

Settings between(Settings settings, std::size_t least, std::size_t most) {
  std::erase_if(settings.sizes, [&](std::size_t bytes) { return bytes < least || bytes > most; });
  return settings;
}

// One rank's measurements.
class Bench {
 public:
  Bench(const Settings& settings, ControlPage& page, ReferenceRank& reference, const MappedBuffers& buffers)
      : settings_(settings), page_(page), reference_(reference), buffers_(buffers) {
    for (int rank = 0; rank < page.ranks(); ++rank) {
      inputs_.push_back(buffers.input(rank));
      outputs_.push_back(buffers.output(rank));
    }
  }

  void run() {
    ReferenceRank& r = reference_;
    own_memory("flag in line", 0, 2 * kKiB,
               [&r](const float* in, float* out, std::size_t count) { r.flag_in_line(in, out, count); });
    one_shot("staged one-shot", 0, 256 * kKiB, {256 * kKiB, Stores::ordinary, Stores::ordinary});
    one_shot("staged one-shot, slots streamed", kKiB, 256 * kKiB, {256 * kKiB, Stores::streaming, Stores::ordinary});
    two_shot("staged two-shot 64K", 4 * kKiB, 4 * kMiB, {64 * kKiB, Stores::ordinary, Stores::ordinary});
    two_shot("staged two-shot 256K", 256 * kKiB, 64 * kMiB - 1, {256 * kKiB, Stores::ordinary, Stores::ordinary});
    two_shot("staged two-shot 256K, slots streamed", 64 * kKiB, 16 * kMiB,
             {256 * kKiB, Stores::streaming, Stores::ordinary});
    two_shot("staged two-shot 256K, outputs streamed", 16 * kMiB, kNoLimit,
             {256 * kKiB, Stores::ordinary, Stores::streaming});
    mapped("mapped one-shot", 0, 256 * kKiB,
           [this](std::size_t count) { reference_.mapped_one_shot(inputs_, buffers_.output(page_.rank()), count); });
    mapped("mapped two-shot", 0, 64 * kMiB - 1,
           [this](std::size_t count) { reference_.mapped_two_shot(inputs_, outputs_, count, Stores::ordinary); });
    mapped("mapped two-shot, outputs streamed", 16 * kKiB, kNoLimit,
           [this](std::size_t count) { reference_.mapped_two_shot(inputs_, outputs_, count, Stores::streaming); });
  }

 private:
  static std::string nothing(std::size_t) { return {}; }

  template <class Call>
  void own_memory(std::string_view name, std::size_t least, std::size_t most, Call call) {
    const auto prepare = [call](const float* input, float* output, std::size_t count) {
      return [call, input, output, count] { call(input, output, count); };
    };
    measure_sizes(between(settings_, least, most), page_, name, Placement::out_of_place, prepare, nothing);
  }

  void one_shot(std::string_view name, std::size_t least, std::size_t most, const StagedForm& form) {
    ReferenceRank& r = reference_;
    own_memory(name, least, most,
               [&r, form](const float* in, float* out, std::size_t count) { r.staged_one_shot(in, out, count, form); });
  }

  void two_shot(std::string_view name, std::size_t least, std::size_t most, const StagedForm& form) {
    ReferenceRank& r = reference_;
    own_memory(name, least, most,
               [&r, form](const float* in, float* out, std::size_t count) { r.staged_two_shot(in, out, count, form); });
  }

  template <class Call>
  void mapped(std::string_view name, std::size_t least, std::size_t most, Call call) {
    const auto prepare = [call](const float*, float*, std::size_t count) { return [call, count] { call(count); }; };
    bool is_input = false;  // the allocations of a size are its input and then its output
    const auto allocate = [this, &is_input](std::size_t count) {
      is_input = !is_input;
      float* floats = is_input ? buffers_.input(page_.rank()) : buffers_.output(page_.rank());
      std::memset(floats, 0xff, count * sizeof(float));
      return View{floats};
    };
    measure_sizes(between(settings_, least, most), page_, name, Placement::out_of_place, prepare, nothing, allocate);
  }

  const Settings& settings_;
  ControlPage& page_;
  ReferenceRank& reference_;
  const MappedBuffers& buffers_;
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
};

int run_rank(Settings settings, int rank, std::byte* shared, const MappedBuffers& buffers) try {
  const int ranks = settings.ranks;
  settings.ranks = 0;  // this rank is a process of its own
  if (settings.bind) bind_to_cpu(rank);
  ControlPage page(settings.page, rank, ranks);
  ReferenceRank reference(shared, rank, ranks);
  Bench(settings, page, reference, buffers).run();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "limit_bench: rank %d: %s\n", rank, error.what());
  return 1;
}

// 0 when all ended well. The first that does not takes the others with it: they would wait for it.
int wait_for(std::vector<pid_t> children) {
  int result = 0;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0) return 1;
    std::erase(children, ended);
    if ((!WIFEXITED(status) || WEXITSTATUS(status) != 0) && result == 0) {
      result = 1;
      for (const pid_t child : children) ::kill(child, SIGKILL);
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  const Settings settings = Settings::from_arguments(argc, argv);
  if (settings.ranks == 0) throw std::runtime_error("--ranks is needed; valid: 1 to 64");
  const std::size_t most_bytes = *std::max_element(settings.sizes.begin(), settings.sizes.end());
  const SharedMemory shared(ReferenceRank::shared_bytes(settings.ranks));
  const MappedBuffers buffers(settings.ranks, most_bytes);
  std::vector<pid_t> children;
  for (int rank = 0; rank < settings.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_rank(settings, rank, shared.data(), buffers));
    if (child < 0) {
      for (const pid_t other : children) ::kill(other, SIGKILL);
      throw std::runtime_error(std::string("cannot fork a rank: ") + std::strerror(errno));
    }
    children.push_back(child);
  }
  return wait_for(children);
} catch (const std::exception& error) {
  std::fprintf(stderr, "limit_bench: %s\n", error.what());
  return 1;
}
