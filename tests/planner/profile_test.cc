#include "src/planner/profile.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::planner;

namespace {

const Profile kProfile{"some host", {{"all_reduce", "ring", 4, 3.25, 1.1e-4}, {"broadcast", "tree", 2, 0.1, 0}}};

std::string refusal(const std::string& text) {
  try {
    parse_profile(text, "some.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find("some.json") != std::string::npos);
    return error.what();
  }
  return {};
}

bool mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

std::string with_entry(const std::string& entry) {
  return R"({"version": 1, "host": "h", "algorithms": [)" + entry + "]}";
}

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-profile-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("a profile's text is read back exactly") {
  CHECK(parse_profile(to_text(kProfile), "x") == kProfile);
  CHECK(parse_profile(to_text({}), "x") == Profile{});
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Profile profile{"h",
                    {{"all_reduce", "ring", 8, std::generate_canonical<double, 53>(random) * 1e3,
                      std::generate_canonical<double, 53>(random) * 1e-3}}};
    CHECK(parse_profile(to_text(profile), "x") == profile);
  }
}

TEST_CASE("bad profiles are refused with the field, its value and what is valid") {
  const std::string good = R"("collective": "all_reduce", "algorithm": "ring", "ranks": 4, "alpha_us": 1)";
  CHECK(refusal(with_entry("{" + good + R"(, "beta_us_per_byte": 0})")) == "");
  CHECK(mentions(refusal("{\"version\": 1,\n oops}"), "line 2"));
  CHECK(mentions(refusal(""), "no JSON"));
  CHECK(mentions(refusal("[]"), "not an object"));
  CHECK(mentions(refusal("{}"), "version"));
  CHECK(mentions(refusal(R"({"version": 2, "host": "h", "algorithms": []})"), "version is 2"));
  CHECK(mentions(refusal(R"({"version": 1, "host": 5, "algorithms": []})"), "host is 5"));
  CHECK(mentions(refusal(R"({"version": 1, "host": "h", "algorithms": {}})"), "array"));
  CHECK(mentions(refusal(R"({"version": 1, "host": "h", "algorithms": [], "more": 1})"), "more"));
  CHECK(mentions(refusal(with_entry("7")), "algorithms[0]"));
  CHECK(mentions(refusal(with_entry("{" + good + "}")), "algorithms[0].beta_us_per_byte is missing"));
  CHECK(mentions(refusal(with_entry("{" + good + R"(, "beta_us_per_byte": -1})")), "-1"));
  CHECK(mentions(refusal(with_entry("{" + good + R"(, "beta_us_per_byte": 1e999})")), "some.json"));
  CHECK(mentions(refusal(with_entry("{" + good + R"(, "beta_us_per_byte": "fast"})")), "\"fast\""));
  CHECK(mentions(refusal(with_entry("{" + good + R"(, "beta_us_per_byte": 0, "x": 0})")), "algorithms[0].x"));
  const std::string start = R"({"algorithm": "ring", "alpha_us": 1, "beta_us_per_byte": 0, )";
  CHECK(mentions(refusal(with_entry(start + R"("ranks": 1.5, "collective": "all_reduce"})")), "1.5"));
  CHECK(mentions(refusal(with_entry(start + R"("ranks": 0, "collective": "all_reduce"})")), "ranks is 0"));
  CHECK(mentions(refusal(with_entry(start + R"("ranks": 4, "collective": "reduce"})")), "broadcast"));
  const std::string twice = start + R"("ranks": 4, "collective": "all_reduce"})";
  CHECK(mentions(refusal(with_entry(twice + "," + twice)), "second entry"));
  CHECK(mentions(refusal(std::string(2 << 20, ' ')), "1 MiB"));
  CHECK(refusal(std::string(200000, '[')) != "");
}

TEST_CASE("any damaged text is a profile or a clear error") {
  const std::string text = to_text(kProfile);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0: damaged[at] = static_cast<char>(random()); break;
        case 1: damaged.erase(at, 1 + random() % 9); break;
        case 2: damaged.insert(at, 1, "{}[]\",:0-e.\\"[random() % 12]); break;
        default: damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 30));
      }
      if (damaged.empty()) damaged = " ";
    }
    if (refusal(damaged) != "") ++refused;
  }
  CHECK(refused > 10000);
}

TEST_CASE("profiles are saved whole and loaded again") {
  const Directory directory;
  const std::string path = (directory.path / "deep" / "er" / "profile.json").string();
  CHECK(load_profile(path) == Profile{});  // no file: the built-in table
  save_profile(kProfile, path);
  CHECK(load_profile(path) == kProfile);
  save_profile({"other", {}}, path);
  CHECK(load_profile(path).host == "other");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path / "deep" / "er"))
    ++files;
  CHECK(files == 1);  // no temporary file stays behind

  std::ofstream(path) << "{";
  CHECK_THROWS_WITH(load_profile(path), Catch::Contains(path));
  CHECK_THROWS_WITH(load_profile(directory.path.string()), Catch::Contains("no regular file"));
  CHECK_THROWS_AS(save_profile(kProfile, "/proc/nowhere/profile.json"), Error);
}

TEST_CASE("where the profile lies") {
  setenv("TUTTI_PROFILE", "/a/b.json", 1);
  CHECK(profile_path() == "/a/b.json");
  unsetenv("TUTTI_PROFILE");
  setenv("XDG_CONFIG_HOME", "/c", 1);
  CHECK(profile_path().starts_with("/c/tutti/profile-"));
  unsetenv("XDG_CONFIG_HOME");
  setenv("HOME", "/h", 1);
  CHECK(profile_path().starts_with("/h/.config/tutti/profile-"));
}
