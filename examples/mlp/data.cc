#include "examples/mlp/data.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tutti/error.h"

namespace mlp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

[[noreturn]] void fail(const std::string& text) { throw tutti::Error(tutti::ErrorCode::invalid_argument, text); }

// The digits lie in the source tree, or where Tutti is installed: above the executable in both cases.
std::string find_digits() {
  std::error_code ignored;
  std::string tried;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  for (fs::path above = executable.parent_path(); above.has_relative_path(); above = above.parent_path())
    for (const char* below : {"data/digits", "share/tutti/digits"}) {
      const fs::path file = above / below / "digits.csv.gz";
      if (fs::exists(file, ignored)) return file;
      tried += (tried.empty() ? "" : ", ") + file.string();
    }
  const fs::path file = fs::path(MLP_DATA_DIRECTORY) / "digits" / "digits.csv.gz";
  if (fs::exists(file, ignored)) return file;
  fail("The digits that come with Tutti are in none of " + tried + ", " + file.string() +
       ". Install Tutti with its data, or give the file: --data PATH/digits.csv.gz");
}

// One of MNIST's files, under any of the names it goes by.
std::string find_idx(const fs::path& directory, const std::string& part, const std::string& kind) {
  std::string tried;
  for (const char* dot : {"-", "."})
    for (const char* end : {".gz", ""}) {
      const std::string name =
          part + "-" +
          (kind == "images" ? "images" + std::string(dot) + "idx3" : "labels" + std::string(dot) + "idx1") + "-ubyte" +
          end;
      if (fs::exists(directory / name)) return directory / name;
      tried += (tried.empty() ? "" : ", ") + name;
    }
  fail(directory.string() + " holds none of " + tried + ". A directory for --data holds MNIST's four IDX files.");
}

Split load_idx(const fs::path& directory, const std::string& name) {
  Split split{name, read_idx(find_idx(directory, "train", "images"), find_idx(directory, "train", "labels")),
              read_idx(find_idx(directory, "t10k", "images"), find_idx(directory, "t10k", "labels"))};
  if (split.train.features != split.test.features)
    fail(directory.string() + ": the training images have " + std::to_string(split.train.features) +
         " pixels, the test images " + std::to_string(split.test.features) + "; they must be of one size.");
  split.train.classes = split.test.classes = std::max(split.train.classes, split.test.classes);
  return split;
}

}  // namespace

void Dataset::gather(std::span<const std::size_t> samples, std::vector<float>& rows,
                     std::vector<std::uint32_t>& their) const {
  rows.resize(samples.size() * features);
  their.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto row = inputs.begin() + static_cast<std::ptrdiff_t>(samples[i] * features);
    std::copy_n(row, features, rows.begin() + static_cast<std::ptrdiff_t>(i * features));
    their[i] = labels[samples[i]];
  }
}

Split hold_out_quarter(Dataset all, std::uint64_t seed) {
  if (all.size() < 4) fail("A data set of " + std::to_string(all.size()) + " samples cannot be split; at least 4.");
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) std::swap(order[i], order[i + random() % (order.size() - i)]);
  const std::size_t held_out = all.size() / 4;
  Split split;
  for (Dataset* part : {&split.test, &split.train}) {
    part->features = all.features;
    part->classes = all.classes;
  }
  const std::span<const std::size_t> chosen(order);
  all.gather(chosen.first(held_out), split.test.inputs, split.test.labels);
  all.gather(chosen.subspan(held_out), split.train.inputs, split.train.labels);
  return split;
}

void scale_features(Split& split) {
  const std::size_t features = split.train.features;
  for (std::size_t f = 0; f < features; ++f) {
    float low = split.train.inputs[f], high = low;
    for (std::size_t i = f; i < split.train.inputs.size(); i += features) {
      low = std::min(low, split.train.inputs[i]);
      high = std::max(high, split.train.inputs[i]);
    }
    const float scale = high > low ? 1.0f / (high - low) : 0.0f;
    for (Dataset* part : {&split.train, &split.test})
      for (std::size_t i = f; i < part->inputs.size(); i += features) part->inputs[i] = (part->inputs[i] - low) * scale;
  }
}

Split load(const std::string& what, LabelColumn label, std::uint64_t seed) {
  if (what == "fashion-mnist") {
    if (!fs::is_directory(kFashionMnist))
      fail(std::string("Fashion-MNIST is not in ") + kFashionMnist +
           ". Install Debian's package (apt-get install dataset-fashion-mnist), or give a directory with the four IDX "
           "files: --data DIRECTORY");
    return load_idx(kFashionMnist, what);
  }
  const bool digits = what == "digits";
  if (!digits && !fs::exists(what))
    fail("There is no data set '" + what +
         "'; valid: digits, fashion-mnist, a directory with MNIST's four IDX files, " + "or a CSV file.");
  if (!digits && fs::is_directory(what)) return load_idx(what, what);
  Split split = hold_out_quarter(read_csv(digits ? find_digits() : what, digits ? LabelColumn::last : label), seed);
  split.name = what;
  scale_features(split);
  return split;
}

}  // namespace mlp
