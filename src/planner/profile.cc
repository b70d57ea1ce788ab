#include "src/planner/profile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/fd.h"
#include "src/base/log.h"
#include "tutti/types.h"

namespace tutti::planner {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr int kVersion = 1;
constexpr int kMostRanks = 1 << 20;
constexpr double kMostCost = 1e12;

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              "profile " + source + ": " + what + "; correct it, or remove it to use the built-in costs");
}

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
      refuse(source_, (where_.empty() ? "the file" : where_) + " is " + shown(object) + ", not an object {...}");
  }

  std::string text(const char* name) {
    const Json& value = take(name);
    if (!value.is_string()) refuse_value(name, value, "a string");
    return value.get<std::string>();
  }
  double cost(const char* name) {
    const Json& value = take(name);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0 && number <= kMostCost)) refuse_value(name, value, "a number from 0 to 1e12");
    return number;
  }
  int integer(const char* name, int low, int high) {
    const Json& value = take(name);
    // Compared as double: exact in this range, and right for every number that JSON can hold.
    const double number = value.is_number_integer() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high))
      refuse_value(name, value, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return static_cast<int>(number);
  }
  const Json& array(const char* name) {
    const Json& value = take(name);
    if (!value.is_array()) refuse_value(name, value, "an array [...]");
    return value;
  }
  [[noreturn]] void refuse_value(const std::string& name, const Json& value, const std::string& valid) const {
    refuse(source_, "field " + field(name) + " is " + shown(value) + "; valid: " + valid);
  }
  void end(const std::string& valid) const {
    for (const auto& [name, value] : object_.items())
      if (std::find(taken_.begin(), taken_.end(), name) == taken_.end())
        refuse(source_, "unknown field " + shown(Json(field(name))) + "; valid: " + valid);
  }

 private:
  std::string field(const std::string& name) const { return where_.empty() ? name : where_ + "." + name; }
  const Json& take(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse(source_, "field " + field(name) + " is missing");
    taken_.emplace_back(name);
    return *found;
  }

  const Json& object_;
  std::string where_;
  const std::string& source_;
  std::vector<std::string> taken_;
};

Profile::Entry parse_entry(const Json& object, std::size_t index, const std::string& source) {
  Fields fields(object, "algorithms[" + std::to_string(index) + "]", source);
  Profile::Entry entry;
  entry.collective = fields.text("collective");
  entry.algorithm = fields.text("algorithm");
  if (entry.algorithm.empty()) fields.refuse_value("algorithm", "", "an algorithm's name");
  entry.ranks = fields.integer("ranks", 1, kMostRanks);
  entry.alpha_us = fields.cost("alpha_us");
  entry.beta_us_per_byte = fields.cost("beta_us_per_byte");
  fields.end("collective, algorithm, ranks, alpha_us, beta_us_per_byte");
  std::string names;
  for (int c = 0; c < kCollectives; ++c) {
    const std::string_view name = name_of(static_cast<Collective>(c));
    if (name == entry.collective) return entry;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fields.refuse_value("collective", entry.collective, names);
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) base::throw_errno("gethostname");
  return name;
}

}  // namespace

const Profile::Entry* Profile::find(std::string_view collective, std::string_view algorithm, int ranks) const {
  for (const Entry& entry : entries)
    if (entry.collective == collective && entry.algorithm == algorithm && entry.ranks == ranks) return &entry;
  return nullptr;
}

std::string to_text(const Profile& profile) {
  Json algorithms = Json::array();
  for (const Profile::Entry& entry : profile.entries)
    algorithms.push_back({{"collective", entry.collective},
                          {"algorithm", entry.algorithm},
                          {"ranks", entry.ranks},
                          {"alpha_us", entry.alpha_us},
                          {"beta_us_per_byte", entry.beta_us_per_byte}});
  const Json file = {{"version", kVersion}, {"host", profile.host}, {"algorithms", algorithms}};
  return file.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Profile parse_profile(std::string_view text, const std::string& source) {
  if (text.size() > kMostBytes)
    refuse(source, "it has " + std::to_string(text.size()) + " bytes; at most 1 MiB is read");
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception...] parse error at line 1, column 2: ..."
    const std::size_t start = what.find("] ");
    refuse(source, "no JSON: " + Json(start == std::string::npos ? what : what.substr(start + 2))
                                     .dump(-1, ' ', true, Json::error_handler_t::replace));
  }
  Fields fields(file, "", source);
  fields.integer("version", kVersion, kVersion);
  Profile profile;
  profile.host = fields.text("host");
  for (const Json& object : fields.array("algorithms")) {
    Profile::Entry entry = parse_entry(object, profile.entries.size(), source);
    if (profile.find(entry.collective, entry.algorithm, entry.ranks) != nullptr)
      refuse(source, "algorithms[" + std::to_string(profile.entries.size()) + "] is a second entry for " +
                         shown(Json(entry.collective + " " + entry.algorithm)) + " on " + std::to_string(entry.ranks) +
                         " ranks");
    profile.entries.push_back(std::move(entry));
  }
  fields.end("version, host, algorithms");
  return profile;
}

std::string profile_path() {
  if (const auto path = base::env("TUTTI_PROFILE")) return *path;
  std::filesystem::path config;
  if (const auto path = base::env("XDG_CONFIG_HOME"))
    config = *path;
  else if (const auto home = base::env("HOME"))
    config = std::filesystem::path(*home) / ".config";
  else
    return {};
  return config / "tutti" / ("profile-" + host_name() + ".json");
}

Profile load_profile(const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  const bool asked_for = base::env("TUTTI_PROFILE") == path;
  if (!std::filesystem::exists(path, error)) {
    if (error && asked_for) refuse(path, "cannot be read: " + error.message());
    if (error) {  // a home folder that is not ours to read holds no profile of ours
      base::log(base::LogLevel::info, "no profile: " + path + ": " + error.message());
      return {};
    }
    if (asked_for)
      base::log(base::LogLevel::warn,
                "TUTTI_PROFILE names " + path + ", which does not exist; the built-in costs are used");
    return {};
  }
  if (!std::filesystem::is_regular_file(path, error)) refuse(path, "is no regular file");
  if (std::filesystem::file_size(path, error) > kMostBytes) refuse(path, "is larger than 1 MiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened: " + base::errno_text());
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) refuse(path, "cannot be read: " + base::errno_text());
  return parse_profile(text, path);
}

void save_profile(const Profile& profile, const std::string& path) {
  if (path.empty())
    throw Error(ErrorCode::invalid_argument, "no place for the profile: set TUTTI_PROFILE, XDG_CONFIG_HOME or HOME");
  const std::filesystem::path target(path);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  std::string temporary = path + ".XXXXXX";
  const base::Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) base::throw_errno("cannot write profile " + path);
  const std::string text = to_text(profile);
  const auto give_up = [&](const std::string& what) {
    const int number = errno;
    unlink(temporary.c_str());
    base::throw_errno(what + " profile " + path, number);
  };
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) give_up("cannot write");
    done += static_cast<std::size_t>(written);
  }
  if (fchmod(fd.get(), 0644) != 0 || fsync(fd.get()) != 0) give_up("cannot write");
  if (rename(temporary.c_str(), path.c_str()) != 0) give_up("cannot replace");
}

}  // namespace tutti::planner
