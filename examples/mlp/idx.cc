// MNIST's IDX format: big-endian numbers; 2 zero bytes, element type (8: unsigned byte), dimensions d, d sizes of 32
// bits, then the elements, the last dimension fastest.
#include <algorithm>
#include <array>

#include "examples/mlp/data.h"
#include "examples/mlp/gzip_file.h"
#include "tutti/error.h"

namespace mlp {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{4} << 30;  // bytes of elements
constexpr std::uint8_t kUnsignedByte = 8;

struct Idx {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> elements;
};

Idx read_file(const std::string& path, std::size_t dimensions, const std::string& what) {
  GzipFile file(path);
  const auto magic = file.read_exactly(4, "the magic number");
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte || magic[3] != dimensions) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text = "0x";
    for (const std::uint8_t b : magic) (text += kDigits[b >> 4]) += kDigits[b & 15];
    throw tutti::Error(tutti::ErrorCode::invalid_argument, path + ": byte 0: the magic number is " + text +
                                                               "; an IDX file of " + what + " starts with 0x0000080" +
                                                               std::to_string(dimensions) + " (unsigned bytes, " +
                                                               std::to_string(dimensions) + " dimensions).");
  }
  Idx idx;
  std::uint64_t total = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto b = file.read_exactly(4, "the sizes of the dimensions");
    const std::uint64_t size = (std::uint64_t{b[0]} << 24) | (b[1] << 16) | (b[2] << 8) | b[3];
    if (size == 0 || size > kLargestFile / total)
      file.fail("dimension " + std::to_string(d) + " has size " + std::to_string(size) +
                "; valid: at least 1, and at most " + std::to_string(kLargestFile) + " elements in the file.");
    total *= size;
    idx.sizes.push_back(size);
  }
  idx.elements = file.read_exactly(total, what);
  std::uint8_t more;
  if (file.read(&more, 1) != 0)
    file.fail("there are bytes behind the " + std::to_string(total) + " elements that the header announces.");
  return idx;
}

}  // namespace

Dataset read_idx(const std::string& images_path, const std::string& labels_path) {
  const Idx labels = read_file(labels_path, 1, "labels");
  const Idx images = read_file(images_path, 3, "images");
  if (images.sizes[0] != labels.sizes[0])
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       images_path + " holds " + std::to_string(images.sizes[0]) + " images, " + labels_path + " " +
                           std::to_string(labels.sizes[0]) + " labels; they must be as many.");
  Dataset data;
  data.features = images.sizes[1] * images.sizes[2];
  data.classes = std::size_t{*std::max_element(labels.elements.begin(), labels.elements.end())} + 1;
  data.labels.assign(labels.elements.begin(), labels.elements.end());
  data.inputs.resize(images.elements.size());
  std::array<float, 256> scaled;
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = static_cast<float>(i) / 255.0f;
  for (std::size_t i = 0; i < data.inputs.size(); ++i) data.inputs[i] = scaled[images.elements[i]];
  return data;
}

}  // namespace mlp
