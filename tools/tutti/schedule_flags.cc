#include "tools/tutti/schedule_flags.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "src/base/env.h"

namespace tutti::tools {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& valid) {
  throw CLI::ValidationError(name + " is '" + value + "'; valid: " + valid);
}

template <class Value>
std::string names_of(int count) {
  std::string names;
  for (int i = 0; i < count; ++i) names += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Value>(i)));
  return names;
}

}  // namespace

void ScheduleFlags::add_algorithm(CLI::App& command, bool several) {
  std::string help = several ? "algorithms to show, separated by commas: " : "algorithm: ";
  command.add_option("--algo", algorithms, help + schedule::builder_names(Collective::all_reduce))->required();
}

void ScheduleFlags::add_world(CLI::App& command) {
  command.add_option("--ranks,-n", ranks, "number of ranks")->required();
  command.add_option("--collective", collective, names_of<Collective>(kCollectives))->capture_default_str();
  command.add_option("--root", root, "root of a collective that has one")->capture_default_str();
}

void ScheduleFlags::add_lanes(CLI::App& command) {
  command.add_option("--lanes", lanes, "how many times the algorithm runs side by side")->capture_default_str();
}

void ScheduleFlags::add_size(CLI::App& command, bool required) {
  command
      .add_option("--size", size, "bytes of the call, as 64K or 1M (of one block where there is one for every rank)")
      ->required(required);
  command.add_option("--type", type, "type of the elements: " + names_of<DataType>(kDataTypes))->capture_default_str();
}

int ScheduleFlags::rank_count() const {
  return flag([&] { return static_cast<int>(base::parse_integer("--ranks", ranks, 1, kMostRanks)); });
}

Collective ScheduleFlags::the_collective() const {
  for (int i = 0; i < kCollectives; ++i)
    if (name_of(static_cast<Collective>(i)) == collective) return static_cast<Collective>(i);
  refuse("--collective", collective, names_of<Collective>(kCollectives));
}

DataType ScheduleFlags::the_type() const {
  if (const auto value = data_type_from_name(type)) return *value;
  refuse("--type", type, names_of<DataType>(kDataTypes));
}

ReduceOp ScheduleFlags::the_op() const {
  const auto value = reduce_op_from_name(op);
  if (!value) refuse("--op", op, names_of<ReduceOp>(kReduceOps));
  if (!can_reduce(the_type(), *value)) refuse("--op", op, valid_ops(the_type()) + " (elements of type " + type + ")");
  return *value;
}

int ScheduleFlags::the_root() const {
  return flag([&] { return static_cast<int>(base::parse_integer("--root", root, 0, rank_count() - 1)); });
}

std::size_t ScheduleFlags::count() const {
  constexpr std::size_t kMostBytes = std::size_t{1} << 50;
  const std::size_t bytes = flag([&] { return base::parse_bytes("--size", size); });
  if (bytes > kMostBytes) refuse("--size", size, "at most 1 PiB");
  return bytes / size_of(the_type());
}

std::vector<schedule::Schedule> ScheduleFlags::build() const {
  schedule::Shape shape;
  shape.ranks = rank_count();
  shape.root = the_root();
  shape.lanes = flag([&] { return static_cast<int>(base::parse_integer("--lanes", lanes, 1, kMostLanes)); });
  std::vector<schedule::Schedule> schedules;
  for (std::size_t begin = 0; begin <= algorithms.size();) {
    const std::size_t end = std::min(algorithms.find(',', begin), algorithms.size());
    const std::string name = algorithms.substr(begin, end - begin);
    const schedule::Builder* builder = schedule::find_builder(the_collective(), name);
    if (builder == nullptr) refuse("--algo", name, schedule::builder_names(the_collective()) + " for " + collective);
    schedules.push_back(flag([&] { return builder->build(shape); }));
    begin = end + 1;
  }
  return schedules;
}

double parse_number(const std::string& source, const std::string& text, double low, double high) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high)) {
    std::ostringstream valid;
    valid.imbue(std::locale::classic());
    valid << "a number from " << low << " to " << high;
    refuse(source, text, valid.str());
  }
  return value;
}

std::vector<int> blocks_of_ranks(int ranks, int hosts) {
  std::vector<int> host_of_rank;
  if (hosts > 1)
    for (int rank = 0; rank < ranks; ++rank) host_of_rank.push_back(rank * hosts / ranks);
  return host_of_rank;
}

}  // namespace tutti::tools
