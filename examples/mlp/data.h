// Labelled samples, and where they come from. All readers throw tutti::Error(invalid_argument) that names the file, the
// place in it and what is valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mlp {

struct Dataset {
  std::size_t features = 0;
  std::size_t classes = 0;    // labels are 0 .. classes - 1
  std::vector<float> inputs;  // size() rows of `features` numbers
  std::vector<std::uint32_t> labels;

  std::size_t size() const { return labels.size(); }
  // The rows of these samples, one after the other.
  void gather(std::span<const std::size_t> samples, std::vector<float>& rows, std::vector<std::uint32_t>& their) const;
};

struct Split {
  std::string name;
  Dataset train, test;
};

enum class LabelColumn { first, last };

// A pair of MNIST's IDX files (unsigned bytes), plain or gzip. Inputs are divided by 255.
Dataset read_idx(const std::string& images_path, const std::string& labels_path);

// Lines of numbers, one of them the label, a whole number from 0. A first line without any number is a header.
Dataset read_csv(const std::string& path, LabelColumn label);

// Holds out a quarter of the samples, chosen by the seed.
Split hold_out_quarter(Dataset all, std::uint64_t seed);
// Maps every feature to 0 .. 1 by its least and greatest value in `train`.
void scale_features(Split& split);

// `what`: "digits" (comes with Tutti), "fashion-mnist" (Debian's package), a directory with MNIST's four IDX files, or
// a CSV file.
Split load(const std::string& what, LabelColumn label, std::uint64_t seed);

}  // namespace mlp
