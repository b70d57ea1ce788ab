#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/fd.h"
#include "src/base/log.h"
#include "src/planner/profile.h"
#include "src/planner/profile_parts.h"
#include "tutti/error.h"

namespace tutti::planner {
namespace {

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) base::throw_errno("gethostname");
  return name;
}

}  // namespace

std::string profile_path() {
  if (const auto path = base::env("TUTTI_PROFILE")) return *path == "none" ? "" : *path;
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
    if (error && asked_for) refuse_profile(path, "cannot be read: " + error.message());
    if (error) {  // a home folder that is not ours to read holds no profile of ours
      base::log(base::LogLevel::info, "no profile: " + path + ": " + error.message());
      return {};
    }
    if (asked_for)
      base::log(base::LogLevel::warn,
                "TUTTI_PROFILE names " + path + ", which does not exist; the built-in costs are used");
    return {};
  }
  if (!std::filesystem::is_regular_file(path, error)) refuse_profile(path, "is no regular file");
  if (std::filesystem::file_size(path, error) > kMostProfileBytes) refuse_profile(path, "is larger than 1 MiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_profile(path, "cannot be opened: " + base::errno_text());
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) refuse_profile(path, "cannot be read: " + base::errno_text());
  Profile profile = parse_profile(text, path);
  profile.file = path;
  return profile;
}

void save_profile(const Profile& profile, const std::string& path) {
  if (path.empty())
    throw Error(ErrorCode::invalid_argument,
                "no place for the profile: TUTTI_PROFILE is 'none', or neither it nor XDG_CONFIG_HOME nor HOME is set");
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
