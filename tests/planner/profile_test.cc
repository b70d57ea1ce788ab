#include "src/planner/profile.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "src/planner/size_class.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::planner;

namespace {

const Machine kMachine{"some host", "CPU \"X\"", 8, 2, "1.2"};

Profile profile(std::vector<Table> tables) {
  Profile made;
  made.machine = kMachine;
  made.usable_cores = 4;
  made.tables = std::move(tables);
  return made;
}

const Profile kProfile =
    profile({{"all_reduce", "ring", 4, {{64, 3.25, 1, {8, 1024}}, {1 << 20, 1.1e3, 2, {4, 65536}}}},
             {"broadcast", "tree", 2, {{96, 0.1, 1, {2, 64}}}}});

std::string refusal(const std::string& text) {
  try {
    parse_profile(text, "some.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find("profile some.json: ") == 0);
    CHECK(std::string(error.what()).find("tutti tune") != std::string::npos);
    CHECK(std::string(error.what()).size() < 600);
    return error.what();
  }
  return {};
}

bool mentions(const std::string& text, const std::string& word) {
  UNSCOPED_INFO(text);
  return text.find(word) != std::string::npos;
}

const std::string kHead =
    R"({"version": 2, "machine": {"host": "h", "cpu": "c", "cores": 2, "numa_nodes": 1, "library": "1"}, )"
    R"("memory": "ordinary", "usable_cores": 2, "tables": [)";

std::string with_table(const std::string& table) { return kHead + table + "]}"; }

std::string with_points(const std::string& points) {
  return with_table(R"({"collective": "all_reduce", "algorithm": "ring", "ranks": 4, "points": [)" + points + "]}");
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
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
  CHECK(parse_profile(to_text(Profile{}), "x") == Profile{});
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Profile made = profile({{"all_reduce", "ring", 8, {}}});
    made.memory = i % 2 == 0 ? "threads" : "ordinary";
    for (int size_class = 0; size_class < 40; size_class += 1 + static_cast<int>(random() % 3))
      made.tables[0].points.push_back(
          {class_border(size_class),
           std::generate_canonical<double, 53>(random) * 1e3 + 1e-3,
           1 + static_cast<int>(random() % 2),
           {static_cast<std::uint32_t>(1 + random() % 8), static_cast<std::uint32_t>(64 * (1 + random() % 1000))}});
    CHECK(parse_profile(to_text(made), "x") == made);
  }
}

TEST_CASE("a profile as large as may be sent stays within the stated bound") {
  Profile large = profile({});
  for (const char* algorithm : {"ring", "tree", "oneshot", "twoshot", "halving_doubling"})
    for (const int ranks : {2, 4, 8}) {
      large.tables.push_back({"all_reduce", algorithm, ranks, {}});
      for (int size_class = 0; size_class < static_cast<int>(kMostPoints); ++size_class)
        large.tables.back().points.push_back({class_border(size_class), 123456.7 + size_class, 2, {4, 524288}});
    }
  const Profile sent = large.reduced_to(5);
  CHECK(sent.tables.size() == 5);
  for (const Table& table : sent.tables) CHECK(table.ranks == 4);
  CHECK(to_text(sent).size() < 25'000);
  CHECK(large.reduced_to(3).tables[0].ranks == 4);  // 4 / 3 is less than 3 / 2
  CHECK(large.reduced_to(1000).tables[0].ranks == 8);
}

TEST_CASE("bad profiles are refused with the field, its value and what is valid") {
  CHECK(refusal(with_points("[64, 1.5, 1, 8, 1024]")) == "");
  CHECK(mentions(refusal("{\"version\": 2,\n oops}"), "line 2"));
  CHECK(mentions(refusal(""), "no JSON"));
  CHECK(mentions(refusal("[]"), "not an object"));
  CHECK(mentions(refusal("{}"), "version is missing"));
  CHECK(mentions(refusal(R"({"version": 1, "host": "h", "algorithms": []})"), "version is 1, the format of an older"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"version\": 2", "\"version\": 3")), "version is 3"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"version\": 2", "\"version\": 2.0")), "version is 2.0"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"h\"", "5")), "machine.host is 5"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"h\"", '"' + std::string(300, 'h') + '"')), "at most 256"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"cores\": 2", "\"cores\": -2")), "machine.cores is -2"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"cores\": 2", "\"cores\": \"2\"")), "machine.cores is \"2\""));
  CHECK(mentions(refusal(replaced(with_table(""), "\"library\"", "\"lib\"")), "machine.library is missing"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"ordinary\"", "\"huge\"")), "valid: ordinary, threads"));
  CHECK(mentions(refusal(replaced(with_table(""), "[", "[{}], \"more\": [")), "tables[0].collective is missing"));
  CHECK(mentions(refusal(replaced(with_table(""), "\"memory\"", "\"more\": 1, \"memory\"")), "unknown field \"more\""));
  CHECK(mentions(refusal(replaced(with_table(""), "\"memory\"", "\"memory\": \"threads\", \"memory\"")),
                 "\"memory\" twice"));
  CHECK(mentions(refusal(with_table("7")), "tables[0] is 7"));
}

TEST_CASE("bad tables and points are refused by name") {
  const std::string one = "[64, 1.5, 1, 8, 1024]";
  CHECK(mentions(refusal(with_points("")), "points is []; valid: 1 to 64 points"));
  CHECK(mentions(refusal(with_points("5")), "tables[0].points[0] is 5; valid: an array [bytes, us, lanes"));
  CHECK(mentions(refusal(with_points("[64, 1.5, 1, 8]")), "points[0] is [64,1.5,1,8]"));
  CHECK(mentions(refusal(with_points(one + ",[65, 1, 1, 8, 1024]")), "points[1].bytes is 65; valid: borders"));
  CHECK(mentions(refusal(with_points("[1e300, 1, 1, 8, 1024]")), "points[0].bytes is 1e+300"));
  CHECK(
      mentions(refusal(with_points("[18446744073709551615, 1, 1, 8, 1024]")), "points[0].bytes is 18446744073709551"));
  CHECK(mentions(refusal(with_points("[-64, 1, 1, 8, 1024]")), "points[0].bytes is -64"));
  CHECK(mentions(refusal(with_points("[128, 1, 1, 8, 1024]," + one)), "more than that of the point before, 128"));
  CHECK(mentions(refusal(with_points(one + "," + one)), "points[1].bytes is 64; valid: more than"));
  for (const char* us : {"0", "-1", "1e13", "1e-9", "\"fast\"", "null", "true"})
    CHECK(mentions(refusal(with_points("[64, " + std::string(us) + ", 1, 8, 1024]")), "points[0].us is "));
  CHECK(mentions(refusal(with_points("[64, 1e999, 1, 8, 1024]")), "some.json"));
  CHECK(
      mentions(refusal(with_points("[64, 1, 3, 8, 1024]")), "points[0].lanes is 3; valid: a whole number from 1 to 2"));
  CHECK(mentions(refusal(with_points("[64, 1, 1.5, 8, 1024]")), "points[0].lanes is 1.5"));
  CHECK(mentions(refusal(with_points("[64, 1, 1, 0, 1024]")), "points[0].slots is 0"));
  CHECK(mentions(refusal(with_points("[64, 1, 1, 8, 100]")), "points[0].slot_bytes is 100; valid: multiples of 64"));
  CHECK(mentions(refusal(with_points("[64, 1, 1, 8, 4294967360]")), "points[0].slot_bytes is 4294967360"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i == 0 ? "" : ",") + one;
  CHECK(mentions(refusal(with_points(many)), "1 to 64 points"));

  const std::string rest = R"("points": [[64, 1, 1, 8, 1024]]})";
  const auto table = [&](const std::string& collective, const std::string& algorithm, const std::string& ranks) {
    return R"({"collective": ")" + collective + R"(", "algorithm": ")" + algorithm + R"(", "ranks": )" + ranks + ", " +
           rest;
  };
  CHECK(mentions(refusal(with_table(table("reduction", "ring", "4"))),
                 "tables[0].collective is \"reduction\"; valid: all_red"));
  CHECK(mentions(refusal(with_table(table("broadcast", "ring", "4"))),
                 "algorithm is \"ring\"; valid: tree, chain, oneshot"));
  for (const char* ranks : {"1", "0", "513", "1.5", "-4", "1e30", "\"4\""})
    CHECK(mentions(refusal(with_table(table("all_reduce", "ring", ranks))), "tables[0].ranks is "));
  const std::string good = table("all_reduce", "ring", "4");
  CHECK(mentions(refusal(with_table(good + "," + good)), "tables[1] is a second one for all_reduce ring on 4 ranks"));
  std::string tables = good;
  for (int i = 0; i < 256; ++i) tables += "," + good;
  CHECK(mentions(refusal(with_table(tables)), "at most 256 tables"));
  CHECK(mentions(refusal(std::string(10 << 20, ' ')), "1 MiB"));
  CHECK(refusal(std::string(200000, '[')) != "");
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  CHECK(refusal(nested) != "");
}

TEST_CASE("every truncation is refused") {
  const std::string text = to_text(kProfile);
  for (std::size_t length = 0; length + 1 < text.size(); ++length) CHECK(refusal(text.substr(0, length)) != "");
  CHECK(refusal(text) == "");
}

TEST_CASE("any damaged text is a profile or a clear error") {
  const std::string text = to_text(kProfile);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
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
  CHECK(refused > 5000);
}

TEST_CASE("between points the time is a power of the size, outside a line") {
  const Table table{
      "all_reduce", "ring", 2, {{1024, 2, 1, {8, 1024}}, {4096, 8, 1, {4, 8192}}, {16384, 20, 2, {2, 65536}}}};
  CHECK(table.at(1024).us == 2);
  CHECK(table.at(4096).us == 8);
  CHECK(table.at(2048).us == Approx(4));                      // 2 -> 8 over a factor of 4: proportional
  CHECK(table.at(8192).us == Approx(std::sqrt(8.0 * 20.0)));  // halfway in logarithms
  CHECK(table.at(2048).geometry == Geometry{4, 8192});        // of the larger neighbour
  CHECK(table.at(8192).lanes == 2);
  CHECK(table.at(512).us == Approx(1));  // the line through the first two passes 0 at 0
  CHECK(table.at(512).geometry == Geometry{8, 1024});
  CHECK(table.at(32768).us == Approx(20 + 16384 * (20.0 - 8) / (16384 - 4096)));
  CHECK(table.at(32768).geometry == Geometry{2, 65536});
  // Noise that makes larger calls faster is not carried on.
  const Table falling{"all_reduce", "ring", 2, {{1024, 5, 1, {8, 1024}}, {2048, 4, 1, {4, 8192}}}};
  CHECK(falling.at(1 << 20).us == 4);
  CHECK(falling.at(64).us == 5);
  const Table one{"all_reduce", "ring", 2, {{1024, 5, 1, {8, 1024}}}};
  CHECK(one.at(64).us == 5);
  CHECK(one.at(4096).us == 20);
}

TEST_CASE("another machine's profile is told by one sentence with both") {
  Machine other = kMachine;
  CHECK(mismatch(kProfile, other) == "");
  other.host = "twin";
  CHECK(mismatch(kProfile, other) == "");
  other.cores = 96;
  CHECK(mentions(mismatch(kProfile, other), "CPU \"X\", 8 cores, 2 NUMA nodes, Tutti 1.2 (some host)"));
  CHECK(mentions(mismatch(kProfile, other), "this is CPU \"X\", 96 cores"));
  other = kMachine, other.library = "1.3";
  CHECK(mismatch(kProfile, other) != "");
  other = kMachine, other.cpu = "Y";
  CHECK(mismatch(kProfile, other) != "");
  CHECK(mismatch(Profile{}, other) == "");
}

TEST_CASE("profiles are saved whole and loaded again") {
  const Directory directory;
  const std::string path = (directory.path / "deep" / "er" / "profile.json").string();
  CHECK(load_profile(path) == Profile{});  // no file: the built-in table
  save_profile(kProfile, path);
  Profile expected = kProfile;
  expected.file = path;
  CHECK(load_profile(path) == expected);
  save_profile(Profile{}, path);
  CHECK(load_profile(path).tables.empty());
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path / "deep" / "er"))
    ++files;
  CHECK(files == 1);  // no temporary file stays behind

  std::ofstream(path) << "{";
  CHECK_THROWS_WITH(load_profile(path), Catch::Contains(path));
  std::ofstream(path) << std::string(10 << 20, ' ');
  CHECK_THROWS_WITH(load_profile(path), Catch::Contains(path) && Catch::Contains("larger than 1 MiB"));
  CHECK_THROWS_WITH(load_profile(directory.path.string()), Catch::Contains("no regular file"));
  const std::string pipe = (directory.path / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(load_profile(pipe), Catch::Contains("no regular file"));
  CHECK_THROWS_AS(save_profile(kProfile, "/proc/nowhere/profile.json"), Error);
}

TEST_CASE("where the profile lies") {
  setenv("TUTTI_PROFILE", "/a/b.json", 1);
  CHECK(profile_path() == "/a/b.json");
  setenv("TUTTI_PROFILE", "none", 1);
  CHECK(profile_path() == "");
  CHECK(load_profile() == Profile{});
  CHECK_THROWS_WITH(save_profile(kProfile), Catch::Contains("none"));
  unsetenv("TUTTI_PROFILE");
  setenv("XDG_CONFIG_HOME", "/c", 1);
  CHECK(profile_path().starts_with("/c/tutti/profile-"));
  unsetenv("XDG_CONFIG_HOME");
  setenv("HOME", "/h", 1);
  CHECK(profile_path().starts_with("/h/.config/tutti/profile-"));
}
