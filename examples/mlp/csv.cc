#include <algorithm>
#include <charconv>
#include <cmath>

#include "examples/mlp/data.h"
#include "examples/mlp/gzip_file.h"
#include "tutti/error.h"

namespace mlp {
namespace {

constexpr std::uint32_t kMostClasses = 10'000;
constexpr std::size_t kMostValues = std::size_t{1} << 30;

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    while (!field.empty() && (field.front() == ' ' || field.front() == '\t')) field.remove_prefix(1);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
    fields.push_back(field);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

bool parse_number(std::string_view field, float& value) {
  const auto [end, fault] = std::from_chars(field.data(), field.data() + field.size(), value);
  return fault == std::errc() && end == field.data() + field.size() && std::isfinite(value);
}

std::string printable(std::string_view field) {
  std::string text(field.substr(0, 40));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return "'" + text + (field.size() > 40 ? "...'" : "'");
}

class Reader {
 public:
  Reader(const std::string& path, LabelColumn label) : file_(path), label_(label) {}

  Dataset read() {
    std::string line;
    for (line_ = 1; file_.read_line(line); ++line_)
      if (!line.empty()) add(split_fields(line));
    if (data_.labels.empty()) file_.fail("the file holds no samples.");
    data_.classes = std::size_t{*std::max_element(data_.labels.begin(), data_.labels.end())} + 1;
    if (data_.classes < 2) file_.fail("all labels are 0; at least two classes are needed.");
    return std::move(data_);
  }

 private:
  void add(const std::vector<std::string_view>& fields) {
    float value = 0;
    if (line_ == 1 && std::none_of(fields.begin(), fields.end(), [&](auto f) { return parse_number(f, value); }))
      return;  // a header
    if (data_.features == 0) {
      if (fields.size() < 2) fail(1, "there is one column; valid: at least one feature and the label, with commas.");
      data_.features = fields.size() - 1;
    }
    if (fields.size() != data_.features + 1)
      fail(1, "there are " + std::to_string(fields.size()) + " columns; the first sample has " +
                  std::to_string(data_.features + 1) + ".");
    if (data_.inputs.size() + data_.features > kMostValues)
      fail(1, "the file holds more than " + std::to_string(kMostValues) + " numbers, the most that is read.");
    const std::size_t label_at = label_ == LabelColumn::first ? 0 : fields.size() - 1;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i == label_at) {
        add_label(fields[i], i + 1);
        continue;
      }
      if (!parse_number(fields[i], value)) fail(i + 1, printable(fields[i]) + " is no (finite, decimal) number.");
      data_.inputs.push_back(value);
    }
  }

  void add_label(std::string_view field, std::size_t column) {
    float value = 0;
    if (!parse_number(field, value) || value != std::floor(value) || value < 0 || value >= kMostClasses)
      fail(column, printable(field) + " is no label; valid: whole numbers from 0 to " +
                       std::to_string(kMostClasses - 1) + ". (Is the label the first column? --label first)");
    data_.labels.push_back(static_cast<std::uint32_t>(value));
  }

  [[noreturn]] void fail(std::size_t column, const std::string& fault) const {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, file_.path() + ": line " + std::to_string(line_) +
                                                               ", column " + std::to_string(column) + ": " + fault);
  }

  GzipFile file_;
  LabelColumn label_;
  std::size_t line_ = 0;
  Dataset data_;
};

}  // namespace

Dataset read_csv(const std::string& path, LabelColumn label) { return Reader(path, label).read(); }

}  // namespace mlp
