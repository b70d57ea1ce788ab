#include "examples/mlp/train.h"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace mlp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEvaluationBatch = 512;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::uint64_t checksum(const Dataset& data) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::uint32_t label : data.labels) hash = (hash ^ label) * 1099511628211u;
  for (const float value : data.inputs) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211u;
  return hash;
}

// Ranks with other data or settings would average gradients that do not belong together.
void check_same(tutti::Communicator& world, const Split& split, const Settings& settings) {
  const std::pair<const char*, std::uint64_t> facts[] = {
      {"number of training samples", split.train.size()},
      {"number of test samples", split.test.size()},
      {"training data", checksum(split.train)},
      {"test data", checksum(split.test)},
      {"number of epochs", settings.epochs},
      {"global batch", settings.batch},
      {"learning rate", std::bit_cast<std::uint32_t>(settings.rate)},
      {"momentum", std::bit_cast<std::uint32_t>(settings.momentum)},
      {"seed", settings.seed},
  };
  constexpr std::size_t kFacts = std::size(facts);
  std::vector<std::uint64_t> mine, all(kFacts * static_cast<std::size_t>(world.size()));
  for (const auto& fact : facts) mine.push_back(fact.second);
  world.all_gather(mine.data(), all.data(), kFacts, tutti::DataType::uint64);
  for (std::size_t r = 1; r < static_cast<std::size_t>(world.size()); ++r)
    for (std::size_t f = 0; f < kFacts; ++f)
      if (all[r * kFacts + f] != all[f])
        throw tutti::Error(tutti::ErrorCode::invalid_usage,
                           std::string("The ") + facts[f].first + " of rank " + std::to_string(r) +
                               " differs from that of rank 0 (" + std::to_string(all[r * kFacts + f]) + ", " +
                               std::to_string(all[f]) + "). Start all ranks with the same data and flags.");
}

// Loss, correct answers and samples, summed over the ranks.
struct Totals {
  double values[3] = {0, 0, 0};
  void add(const Mlp::Score& score, std::size_t samples) {
    values[0] += score.loss;
    values[1] += static_cast<double>(score.correct);
    values[2] += static_cast<double>(samples);
  }
  void sum(tutti::Communicator& world) { world.all_reduce(std::span<double>(values)); }
  double loss() const { return values[2] > 0 ? values[0] / values[2] : 0; }
  double accuracy() const { return values[2] > 0 ? values[1] / values[2] : 0; }
};

double evaluate(tutti::Communicator& world, Mlp& model, const Dataset& test) {
  const tutti::DistributedSampler sampler(test.size(), world.size(), world.rank(),
                                          {.shuffle = false, .tail = tutti::DistributedSampler::Tail::uneven});
  std::vector<float> rows;
  std::vector<std::uint32_t> labels;
  Totals totals;
  for (const auto& samples : sampler.batches(0, kEvaluationBatch)) {
    test.gather(samples, rows, labels);
    totals.add(model.forward(rows, labels), samples.size());
  }
  totals.sum(world);
  return totals.accuracy();
}

}  // namespace

Result train(tutti::Communicator& world, const Split& split, const Settings& settings, Mlp& model,
             const std::function<void(const Progress&)>& report) {
  check_same(world, split, settings);
  tutti::Ddp ddp(world, model.parameters(), settings.ddp);
  Sgd sgd(model.parameters(), settings.momentum);
  const tutti::DistributedSampler sampler(split.train.size(), world.size(), world.rank(),
                                          {.seed = settings.seed, .tail = tutti::DistributedSampler::Tail::uneven});

  Result result;
  const Clock::time_point start = Clock::now();
  const std::size_t epoch_steps = (sampler.total() + settings.batch - 1) / settings.batch;
  const std::size_t all_steps = settings.epochs * epoch_steps;
  std::size_t step = 0;
  std::vector<float> rows;
  std::vector<std::uint32_t> labels;
  for (std::size_t epoch = 0; epoch < settings.epochs && (settings.steps == 0 || step < settings.steps); ++epoch) {
    const Clock::time_point epoch_start = Clock::now();
    ddp.reset_statistics();
    Progress progress{.epoch = epoch + 1, .steps = epoch_steps, .communication = {}};
    Totals totals;
    std::size_t seen = 0;
    for (const auto& samples : sampler.batches(epoch, settings.batch)) {
      split.train.gather(samples, rows, labels);
      totals.add(model.forward(rows, labels), samples.size());
      ddp.begin_backward(samples.size());
      model.backward([&](std::size_t parameter) { ddp.gradient_ready(parameter); });
      seen += ddp.finish();
      sgd.step(cosine_rate(settings.rate, step, all_steps));
      ++step;
      ++progress.step;
      progress.seconds = seconds_since(epoch_start);
      progress.samples_per_s = static_cast<double>(seen) / progress.seconds;
      progress.communication = ddp.statistics();
      report(progress);
      if (settings.steps != 0 && step == settings.steps) break;
    }
    totals.sum(world);
    progress.epoch_done = true;
    progress.loss = result.loss = totals.loss();
    progress.accuracy = totals.accuracy();
    report(progress);
  }
  result.test_accuracy = evaluate(world, model, split.test);
  result.checksum = ddp.assert_in_sync();
  result.seconds = seconds_since(start);
  return result;
}

void save_weights(const std::string& name, Mlp& model) {
  // Whole or not at all: written beside the file and renamed. Links are followed; what is no file (a device, a folder)
  // must not be replaced by one.
  std::error_code ignored;
  const std::string path = std::filesystem::weakly_canonical(name, ignored).string();
  if (path.empty() || (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)))
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "Cannot save the weights: '" + name + "' is no regular file; valid: a new or an existing file.");
  const std::string unfinished = path + ".part";
  const auto fail = [&](const std::string& what) {
    const int number = errno;
    std::remove(unfinished.c_str());
    throw tutti::Error(
        tutti::ErrorCode::system_error,
        "Cannot save the weights: " + what + ": " + std::strerror(number) + " (errno " + std::to_string(number) + ").");
  };
  std::FILE* file = std::fopen(unfinished.c_str(), "wbe");
  if (file == nullptr) fail("opening " + unfinished);
  std::string header = "tutti-mlp 1\nwidths";
  for (const std::size_t width : model.widths()) header += " " + std::to_string(width);
  header += "\n";
  bool written = std::fwrite(header.data(), 1, header.size(), file) == header.size();
  for (const tutti::Parameter& parameter : model.parameters())
    written = written && std::fwrite(parameter.data, sizeof(float), parameter.count(), file) == parameter.count();
  if (std::fclose(file) != 0 || !written) fail("writing " + unfinished);
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) fail("renaming " + unfinished + " to " + path);
}

}  // namespace mlp
