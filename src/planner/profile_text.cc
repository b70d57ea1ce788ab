#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/planner/profile.h"
#include "src/planner/profile_parts.h"
#include "src/planner/size_class.h"
#include "src/schedule/builders.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::planner {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 2;
constexpr double kMostUs = 1e12;
constexpr int kMostCores = 1 << 20;
constexpr std::size_t kMostTables = 256;
constexpr std::size_t kMostText = 256;  // characters of a name

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

// One object of the file, whose fields are taken by name; what is left over is an error.
class Fields {
 public:
  Fields(const Json& object, std::string where, const std::string& source)
      : object_(object), where_(std::move(where)), source_(source) {
    if (!object.is_object())
      refuse_profile(source_,
                     (where_.empty() ? "the file" : where_) + " is " + shown(object) + ", not an object {...}");
  }

  std::string text(const char* name) {
    const Json& value = take(name);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMostText)
      refuse_value(name, value, "a string of at most " + std::to_string(kMostText) + " bytes");
    return value.get<std::string>();
  }
  int integer(const char* name, int low, int high) { return static_cast<int>(whole(take(name), name, low, high)); }
  double whole(const Json& value, const std::string& name, double low, double high) const {
    // Compared as double: exact in the ranges used, and right for every number that JSON can hold.
    const double number = value.is_number_integer() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high))
      refuse_value(name, value,
                   "a whole number from " + std::to_string(static_cast<long long>(low)) + " to " +
                       std::to_string(static_cast<long long>(high)));
    return number;
  }
  const Json& object(const char* name) { return take(name); }
  const Json& array(const char* name) {
    const Json& value = take(name);
    if (!value.is_array()) refuse_value(name, value, "an array [...]");
    return value;
  }
  [[noreturn]] void refuse_value(const std::string& name, const Json& value, const std::string& valid) const {
    refuse_profile(source_, "field " + field(name) + " is " + shown(value) + "; valid: " + valid);
  }
  void end(const std::string& valid) const {
    for (const auto& [name, value] : object_.items())
      if (std::find(taken_.begin(), taken_.end(), name) == taken_.end())
        refuse_profile(source_, "unknown field " + shown(Json(field(name))) + "; valid: " + valid);
  }

 private:
  std::string field(const std::string& name) const { return where_.empty() ? name : where_ + "." + name; }
  const Json& take(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse_profile(source_, "field " + field(name) + " is missing");
    taken_.emplace_back(name);
    return *found;
  }

  const Json& object_;
  std::string where_;
  const std::string& source_;
  std::vector<std::string> taken_;
};

std::string one_of(Fields& fields, const char* name, const std::vector<std::string>& valid) {
  const std::string value = fields.text(name);
  std::string names;
  for (const std::string& choice : valid) {
    if (choice == value) return value;
    names += (names.empty() ? "" : ", ") + choice;
  }
  fields.refuse_value(name, value, names);
}

std::vector<std::string> collectives() {
  std::vector<std::string> names;
  for (int c = 0; c < kCollectives; ++c) names.emplace_back(name_of(static_cast<Collective>(c)));
  return names;
}

std::vector<std::string> algorithms_of(const std::string& collective) {
  std::vector<std::string> names;
  for (const schedule::Builder& builder : schedule::builders())
    if (name_of(builder.collective) == collective) names.emplace_back(builder.name);
  return names;
}

// [bytes, us, lanes, slots, slot_bytes]
Point parse_point(const Fields& table, const Json& values, const std::string& name) {
  if (!values.is_array() || values.size() != 5)
    table.refuse_value(name, values, "an array [bytes, us, lanes, slots, slot_bytes]");
  Point point;
  const double bytes = table.whole(values[0], name + ".bytes", 64, static_cast<double>(std::size_t{1} << 50));
  point.bytes = static_cast<std::size_t>(bytes);
  if (class_border(class_of(point.bytes)) != point.bytes)
    table.refuse_value(name + ".bytes", values[0], "borders of size classes: 64, 96, 128, 192, 256, 384, ...");
  point.us = values[1].is_number() ? values[1].get<double>() : 0;
  if (!(point.us > 1e-6 && point.us <= kMostUs))
    table.refuse_value(name + ".us", values[1], "a number above 1e-6, at most 1e12");
  point.lanes = static_cast<int>(table.whole(values[2], name + ".lanes", 1, kMostLanes));
  point.geometry.slots = static_cast<std::uint32_t>(table.whole(values[3], name + ".slots", 1, kMostSlots));
  point.geometry.slot_bytes =
      static_cast<std::uint32_t>(table.whole(values[4], name + ".slot_bytes", 64, kMostSlotBytes));
  if (point.geometry.slot_bytes % 64 != 0) table.refuse_value(name + ".slot_bytes", values[4], "multiples of 64");
  return point;
}

Table parse_table(const Json& object, std::size_t index, const std::string& source) {
  Fields fields(object, "tables[" + std::to_string(index) + "]", source);
  Table table;
  table.collective = one_of(fields, "collective", collectives());
  table.algorithm = one_of(fields, "algorithm", algorithms_of(table.collective));
  table.ranks = fields.integer("ranks", 2, kMostMeasuredRanks);
  const Json& points = fields.array("points");
  if (points.empty() || points.size() > kMostPoints)
    fields.refuse_value("points", points, "1 to " + std::to_string(kMostPoints) + " points");
  for (const Json& values : points) {
    const std::string name = "points[" + std::to_string(table.points.size()) + "]";
    const Point point = parse_point(fields, values, name);
    if (!table.points.empty() && point.bytes <= table.points.back().bytes)
      fields.refuse_value(name + ".bytes", values[0],
                          "more than that of the point before, " + std::to_string(table.points.back().bytes));
    table.points.push_back(point);
  }
  fields.end("collective, algorithm, ranks, points");
  return table;
}

Machine parse_machine(const Json& object, const std::string& source) {
  Fields fields(object, "machine", source);
  Machine machine;
  machine.host = fields.text("host");
  machine.cpu = fields.text("cpu");
  machine.cores = fields.integer("cores", 0, kMostCores);
  machine.numa_nodes = fields.integer("numa_nodes", 0, kMostCores);
  machine.library = fields.text("library");
  fields.end("host, cpu, cores, numa_nodes, library");
  return machine;
}

std::string text_of(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json parse_json(std::string_view text, const std::string& source) {
  if (text.size() > kMostProfileBytes)
    refuse_profile(source, "it has " + std::to_string(text.size()) + " bytes; at most 1 MiB is read");
  std::map<int, std::set<std::string>> names;  // of the objects that are open, by depth
  std::string twice;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.erase(depth + 1);
    if (event == Json::parse_event_t::key && !names[depth].insert(value.get<std::string>()).second)
      twice = shown(value);
    return true;
  };
  try {
    Json file = Json::parse(text, look);
    if (!twice.empty()) refuse_profile(source, "an object has the field " + twice + " twice");
    return file;
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception...] parse error at line 1, column 2: ..."
    const std::size_t start = what.find("] ");
    refuse_profile(source, "no JSON: " + text_of(start == std::string::npos ? what : what.substr(start + 2)));
  }
}

void check_version(Fields& fields, const Json& file, const std::string& source) {
  if (file.contains("version") && file["version"] == 1)
    refuse_profile(source, "version is 1, the format of an older Tutti with one line per algorithm");
  fields.integer("version", kVersion, kVersion);
}

}  // namespace

[[noreturn]] void refuse_profile(const std::string& source, const std::string& what) {
  throw Error(
      ErrorCode::invalid_argument,
      "profile " + source + ": " + what + "; make a new one with `tutti tune`, or remove it to use the built-in costs");
}

// One table a line, one point a line: short, and still to be read by people.
std::string to_text(const Profile& profile) {
  const Machine& machine = profile.machine;
  std::string text = "{\"version\": " + std::to_string(kVersion) + ",\n \"machine\": " +
                     text_of({{"host", machine.host},
                              {"cpu", machine.cpu},
                              {"cores", machine.cores},
                              {"numa_nodes", machine.numa_nodes},
                              {"library", machine.library}}) +
                     ",\n \"memory\": " + text_of(profile.memory) +
                     ", \"usable_cores\": " + std::to_string(profile.usable_cores) + ",\n \"tables\": [";
  const char* separator = "\n  ";
  for (const Table& table : profile.tables) {
    text += std::exchange(separator, ",\n  ") + ("{\"collective\": " + text_of(table.collective)) +
            ", \"algorithm\": " + text_of(table.algorithm) + ", \"ranks\": " + std::to_string(table.ranks) +
            ", \"points\": [";
    const char* comma = "\n";
    for (const Point& point : table.points)
      text += std::exchange(comma, ",\n") +
              text_of({point.bytes, point.us, point.lanes, point.geometry.slots, point.geometry.slot_bytes});
    text += "]}";
  }
  return text + "]}\n";
}

Profile parse_profile(std::string_view text, const std::string& source) {
  const Json file = parse_json(text, source);
  Fields fields(file, "", source);
  check_version(fields, file, source);
  Profile profile;
  profile.machine = parse_machine(fields.object("machine"), source);
  profile.memory = one_of(fields, "memory", {"ordinary", "threads"});
  profile.usable_cores = fields.integer("usable_cores", 0, kMostCores);
  const Json& tables = fields.array("tables");
  if (tables.size() > kMostTables)
    fields.refuse_value("tables", tables.size(), "at most " + std::to_string(kMostTables) + " tables");
  for (const Json& object : tables) {
    Table table = parse_table(object, profile.tables.size(), source);
    if (profile.find(table.collective, table.algorithm, table.ranks) != nullptr)
      refuse_profile(source, "tables[" + std::to_string(profile.tables.size()) + "] is a second one for " +
                                 table.collective + " " + table.algorithm + " on " + std::to_string(table.ranks) +
                                 " ranks");
    profile.tables.push_back(std::move(table));
  }
  fields.end("version, machine, memory, usable_cores, tables");
  return profile;
}

}  // namespace tutti::planner
