// tutti train: trains an MLP on real data with all ranks, and says what that cost in communication.
#include "examples/mlp/train.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "tools/tutti/commands.h"
#include "tools/tutti/number_flag.h"

namespace tutti::tools {
namespace {

struct Flags {
  std::string data = "digits";
  std::string label = "last";
  std::vector<std::size_t> widths;
  std::optional<std::size_t> epochs, batch;  // without: as the size of the data suggests
  std::optional<int> ranks;
  double bucket_mb = 25;
  bool no_overlap = false;
  mlp::Settings settings;
};

constexpr double kMegabyte = 1 << 20;
// What to do unless told otherwise, for data sets of few and of many samples.
struct Recipe {
  std::size_t epochs, batch;
};
constexpr std::size_t kFewSamples = 10'000;
constexpr Recipe kFew{30, 16}, kMany{10, 128};

// Rank 0's lines; on a terminal the running epoch is shown and overwritten.
class Display {
 public:
  explicit Display(std::size_t epochs) : epochs_(epochs), terminal_(::isatty(STDOUT_FILENO) == 1) {}

  void operator()(const mlp::Progress& p) {
    if (!p.epoch_done && (!terminal_ || p.seconds < next_)) return;
    next_ = p.epoch_done ? 0 : p.seconds + 0.2;
    const double share = 100 / p.seconds;
    std::printf("%sepoch %3zu/%zu", terminal_ ? "\r\x1b[K" : "", p.epoch, epochs_);
    if (p.epoch_done)
      std::printf("  loss %.4f  accuracy %6.2f %%", p.loss, 100 * p.accuracy);
    else
      std::printf("  step %zu/%zu", p.step, p.steps);
    std::printf("  %.0f samples/s  communication %.1f %% hidden, %.1f %% exposed%s", p.samples_per_s,
                share * p.communication.hidden_s(), share * p.communication.exposed_s, p.epoch_done ? "\n" : "");
    std::fflush(stdout);
  }

 private:
  std::size_t epochs_;
  bool terminal_;
  double next_ = 0;
};

void check(const Flags& flags) {
  const auto refuse = [](const std::string& text) { throw CLI::ValidationError(text); };
  if (!std::isfinite(flags.settings.rate) || flags.settings.rate <= 0)
    refuse("--lr is " + std::to_string(flags.settings.rate) + "; valid: above 0");
  if (!(flags.settings.momentum >= 0 && flags.settings.momentum < 1))
    refuse("--momentum is " + std::to_string(flags.settings.momentum) + "; valid: from 0 to below 1");
  if (!(flags.bucket_mb >= 0 && flags.bucket_mb <= 4096))
    refuse("--bucket-mb is " + std::to_string(flags.bucket_mb) + "; valid: from 0 to 4096");
}

// The whole widths: given and fitting the data, or the data's with the default hidden layers.
std::vector<std::size_t> choose_widths(const Flags& flags, const mlp::Split& split) {
  std::vector<std::size_t> widths = flags.widths;
  if (widths.empty()) {
    widths = flags.settings.hidden;
    widths.insert(widths.begin(), split.train.features);
    widths.push_back(split.train.classes);
  }
  if (widths.size() < 2 || widths.front() != split.train.features || widths.back() < split.train.classes)
    throw CLI::ValidationError("--widths: " + split.name + " has " + std::to_string(split.train.features) +
                               " features and " + std::to_string(split.train.classes) +
                               " classes; valid: " + std::to_string(split.train.features) + ", any hidden layers, " +
                               std::to_string(split.train.classes) + " or more, separated by commas");
  return widths;
}

std::string describe(const std::vector<std::size_t>& widths) {
  std::string text;
  for (const std::size_t width : widths) text += (text.empty() ? "" : "-") + std::to_string(width);
  return text;
}

void train_rank(Communicator& world, const Flags& flags, const mlp::Settings& settings, const mlp::Split& split,
                int blas_threads) {
  const bool speaks = world.rank() == 0;
  // Every rank draws its own weights: Ddp makes them rank 0's.
  mlp::Mlp model(choose_widths(flags, split), settings.seed + static_cast<std::uint64_t>(world.rank()));
  if (speaks && !settings.save.empty()) mlp::save_weights(settings.save, model);  // fails now rather than at the end
  if (speaks) {
    std::printf(
        "%s: %zu training and %zu test samples, MLP %s, %d rank%s, global batch %zu, "
        "learning rate %g, %d BLAS thread%s a rank\n",
        split.name.c_str(), split.train.size(), split.test.size(), describe(model.widths()).c_str(), world.size(),
        world.size() == 1 ? "" : "s", settings.batch, static_cast<double>(settings.rate), blas_threads,
        blas_threads == 1 ? "" : "s");
    std::fflush(stdout);
  }
  Display display(settings.epochs);
  const mlp::Result result = mlp::train(world, split, settings, model, [&](const mlp::Progress& progress) {
    if (speaks) display(progress);
  });
  if (!speaks) return;
  std::printf("test accuracy %.2f %% after %.1f s\n", 100 * result.test_accuracy, result.seconds);
  std::printf("all ranks hold identical weights (checksum %016llx)\n",
              static_cast<unsigned long long>(result.checksum));
  if (!settings.save.empty()) {
    mlp::save_weights(settings.save, model);
    std::printf("weights saved to %s\n", settings.save.c_str());
  }
}

// All ranks as threads; throws the first Error that is not about another rank.
void train_threads(int ranks, const Flags& flags, const mlp::Settings& settings, const mlp::Split& split,
                   int blas_threads) {
  std::vector<Communicator> worlds = Communicator::connect_threads(ranks);
  std::vector<std::exception_ptr> errors(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < worlds.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        Communicator world = std::move(worlds[r]);  // ends with this thread, so that the others learn of its error
        train_rank(world, flags, settings, split, blas_threads);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr chosen;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!chosen) chosen = error;
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::remote_error) continue;
    } catch (...) {
    }
    chosen = error;
    break;
  }
  if (chosen) std::rethrow_exception(chosen);
}

void train(const Flags& flags) {
  check(flags);
  mlp::Settings settings = flags.settings;
  settings.ddp.bucket_bytes = static_cast<std::size_t>(flags.bucket_mb * kMegabyte);
  settings.ddp.first_bucket_bytes = std::min(settings.ddp.first_bucket_bytes, settings.ddp.bucket_bytes);
  settings.ddp.overlap = !flags.no_overlap;
  const auto label = flags.label == "first" ? mlp::LabelColumn::first : mlp::LabelColumn::last;

  std::optional<Communicator> world = Communicator::connect();
  if (flags.ranks && world->size() > 1)
    throw CLI::ValidationError("--ranks: a launcher has started " + std::to_string(world->size()) +
                               " ranks as processes; valid: no --ranks under a launcher");
  const int ranks = flags.ranks.value_or(world->size());
  const int blas_threads = mlp::share_cores(flags.ranks ? ranks : world->local_size());
  const mlp::Split split = mlp::load(flags.data, label, settings.seed);
  const Recipe& recipe = split.train.size() < kFewSamples ? kFew : kMany;
  settings.epochs = flags.epochs.value_or(recipe.epochs);
  settings.batch = flags.batch.value_or(recipe.batch);
  if (ranks == world->size()) return train_rank(*world, flags, settings, split, blas_threads);
  world.reset();
  train_threads(ranks, flags, settings, split, blas_threads);
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train an MLP with all ranks (data-parallel) on real data");
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("--data", flags->data,
                   "digits (comes with Tutti), fashion-mnist (Debian's package dataset-fashion-mnist), a directory "
                   "with MNIST's four IDX files, or a CSV file; plain or gzip")
      ->capture_default_str();
  command->add_option("--label", flags->label, "The column of a CSV file that holds the label: first or last")
      ->check(CLI::IsMember({"first", "last"}))
      ->capture_default_str();
  add_numbers(*command, "--widths", flags->widths, 1, 65536,
              "Inputs, hidden layers and classes (default: the data's, with 128,64)");
  add_number(*command, "--epochs", flags->epochs, 1, 1'000'000,
             "Passes over the training samples (default: 30 for fewer than 10000 samples, else 10)");
  add_number(*command, "--batch", flags->batch, 1, 100'000'000,
             "Samples in a step, over all ranks (default: 16, else 128)");
  command->add_option("--lr", flags->settings.rate, "Learning rate at the start; it falls to 0 along a cosine")
      ->capture_default_str();
  command->add_option("--momentum", flags->settings.momentum, "Momentum")->capture_default_str();
  add_number(*command, "--seed", flags->settings.seed, 0, std::numeric_limits<std::uint64_t>::max(),
             "Of the held-out samples, the weights and the order of samples")
      ->default_str(std::to_string(flags->settings.seed));
  add_number(*command, "--ranks", flags->ranks, 1, 64,
             "Ranks as threads of this process, when no launcher has started it");
  command->add_option("--bucket-mb", flags->bucket_mb, "Size of gradient buckets in MiB; 0: one for each parameter")
      ->capture_default_str();
  command->add_flag("--no-overlap", flags->no_overlap, "Communicate after the backward pass instead of during it");
  command->add_option("--save", flags->settings.save, "File for the trained weights");
  command->callback([flags] { train(*flags); });
}

}  // namespace tutti::tools
