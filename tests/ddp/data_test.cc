#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "examples/mlp/data.h"
#include "tutti/error.h"

using Catch::Contains;
using mlp::LabelColumn;
namespace fs = std::filesystem;

namespace {

// A directory that goes away with the test.
struct Directory {
  fs::path path;
  Directory() {
    std::string name = (fs::temp_directory_path() / "tutti_data_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
  std::string write(const std::string& name, const std::string& bytes, bool gzip = false) const {
    const std::string file = path / name;
    if (gzip) {
      const gzFile out = ::gzopen(file.c_str(), "wb");
      ::gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
      ::gzclose(out);
    } else {
      std::ofstream(file, std::ios::binary) << bytes;
    }
    return file;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::string big_endian(std::uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}

std::string images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns, const std::string& pixels) {
  return big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns) + pixels;
}

std::string labels(std::uint32_t count, const std::string& values) {
  return big_endian(0x801) + big_endian(count) + values;
}

const std::string kPixels("\x00\xff\x33\x66\x99\xcc", 6);
const std::string kLabels("\x02\x00\x01", 3);

}  // namespace

TEST_CASE("IDX files are read, plain and gzip") {
  const Directory dir;
  for (const bool gzip : {false, true}) {
    const mlp::Dataset data =
        mlp::read_idx(dir.write("i", images(3, 1, 2, kPixels), gzip), dir.write("l", labels(3, kLabels), gzip));
    CHECK(data.features == 2);
    CHECK(data.classes == 3);
    CHECK(data.labels == std::vector<std::uint32_t>{2, 0, 1});
    CHECK(data.inputs == std::vector<float>{0.0f, 1.0f, 51 / 255.0f, 102 / 255.0f, 153 / 255.0f, 204 / 255.0f});
  }
}

TEST_CASE("faulty IDX files are refused with file and byte") {
  const Directory dir;
  const std::string good = dir.write("l", labels(3, kLabels));
  const auto read = [&](const std::string& bytes) { return mlp::read_idx(dir.write("i", bytes), good); };
  const std::string path = dir.path / "i";
  CHECK_THROWS_WITH(read(""), Contains(path + ": byte 0: the file ends here, in the magic number"));
  CHECK_THROWS_WITH(
      read(labels(3, kLabels)),
      Contains(path + ": byte 0: the magic number is 0x00000801; an IDX file of images starts with 0x00000803"));
  CHECK_THROWS_WITH(read(images(3, 1, 2, kPixels).substr(0, 10)),
                    Contains("byte 10: the file ends here, in the sizes"));
  CHECK_THROWS_WITH(read(images(3, 1, 2, kPixels.substr(0, 5))),
                    Contains("byte 21: the file ends here, in images, of which 1 of 6 bytes are missing"));
  CHECK_THROWS_WITH(read(images(3, 1, 2, kPixels + "x")), Contains("bytes behind the 6 elements"));
  CHECK_THROWS_WITH(read(images(3, 0, 2, "")), Contains("byte 12: dimension 1 has size 0"));
  CHECK_THROWS_WITH(read(images(2, 1, 3, kPixels)), Contains("holds 2 images") && Contains("3 labels"));
  // promises gigabytes: refused, or found to be missing without being allocated
  CHECK_THROWS_WITH(read(images(0xffffffff, 0xffffffff, 0xffffffff, kPixels)),
                    Contains("dimension 1 has size 4294967295"));
  CHECK_THROWS_WITH(read(images(4'000'000, 32, 32, kPixels)), Contains("4095999994 of 4096000000 bytes are missing"));
  CHECK_THROWS_WITH(mlp::read_idx(dir.path / "none", good), Contains("none: cannot be read: No such file"));
  CHECK_THROWS_WITH(mlp::read_idx(dir.path, good), Contains("Is a directory"));
}

TEST_CASE("a cut or damaged gzip stream is an error") {
  const Directory dir;
  std::mt19937 random(5);
  std::string pixels(10'000, 0);
  for (char& c : pixels) c = static_cast<char>(random());
  const std::string good = dir.write("l", labels(100, std::string(100, 1)), true);
  dir.write("i", images(100, 10, 10, pixels), true);
  const std::string whole = dir.read("i");
  CHECK_THROWS_WITH(mlp::read_idx(dir.write("cut", whole.substr(0, whole.size() / 2)), good), Contains("cut off"));
  CHECK_THROWS_WITH(mlp::read_idx(dir.write("cut", whole.substr(0, whole.size() - 3)), good), Contains("cut off"));
  std::string flipped = whole;
  flipped[whole.size() - 6] ^= 4;  // the check sum
  CHECK_THROWS_WITH(mlp::read_idx(dir.write("flipped", flipped), good), Contains("damaged"));
}

TEST_CASE("no damage to a file does more than an Error") {
  const Directory dir;
  std::mt19937 random(7);
  const std::string image_bytes = images(3, 1, 2, kPixels), csv = "1,2.5,0\n3,-4e1,1\n5,6,2\n";
  dir.write("gz", image_bytes, true);
  const std::string compressed = dir.read("gz");
  const std::string good = dir.write("l", labels(3, kLabels));
  std::size_t refused = 0;
  for (int round = 0; round < 600; ++round)
    for (const std::string& original : {image_bytes, compressed, csv}) {
      std::string bytes = original;
      if (round % 3 == 0) bytes.resize(random() % bytes.size());
      for (unsigned flips = random() % 4; flips > 0 && !bytes.empty(); --flips)
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
      const std::string file = dir.write("f", bytes);
      try {
        const mlp::Dataset data = original == csv ? mlp::read_csv(file, LabelColumn::last) : mlp::read_idx(file, good);
        CHECK(data.inputs.size() == data.size() * data.features);
        CHECK(*std::max_element(data.labels.begin(), data.labels.end()) < data.classes);
      } catch (const tutti::Error& error) {
        ++refused;
        CHECK_THAT(error.what(), Contains(file));
      }
    }
  CHECK(refused > 500);
}

TEST_CASE("CSV files are read, label first or last, with a header or without") {
  const Directory dir;
  const mlp::Dataset last = mlp::read_csv(dir.write("a.csv", "1, 2.5,0\r\n-3,4e1,1\n\n", true), LabelColumn::last);
  CHECK(last.features == 2);
  CHECK(last.classes == 2);
  CHECK(last.inputs == std::vector<float>{1, 2.5, -3, 40});
  CHECK(last.labels == std::vector<std::uint32_t>{0, 1});
  const mlp::Dataset first = mlp::read_csv(dir.write("b.csv", "label,x\n4,0.5\n0,7"), LabelColumn::first);
  CHECK(first.inputs == std::vector<float>{0.5, 7});
  CHECK(first.labels == std::vector<std::uint32_t>{4, 0});
  CHECK(first.classes == 5);
}

TEST_CASE("faulty CSV files are refused with file, line and column") {
  const Directory dir;
  const auto read = [&](const std::string& text) { return mlp::read_csv(dir.write("x.csv", text), LabelColumn::last); };
  CHECK_THROWS_WITH(read(""), Contains("x.csv") && Contains("no samples"));
  CHECK_THROWS_WITH(read("a,b\n"), Contains("no samples"));
  CHECK_THROWS_WITH(read("1,2,0\n1,two,0\n"),
                    Contains("x.csv: line 2, column 2: 'two' is no (finite, decimal) number"));
  CHECK_THROWS_WITH(read("1,2,0\n1,,0\n"), Contains("line 2, column 2: '' is no"));
  CHECK_THROWS_WITH(read("1,2,0\n1,inf,0\n"), Contains("line 2, column 2"));
  CHECK_THROWS_WITH(read("1,2,0\n1,2\n"), Contains("line 2, column 1: there are 2 columns; the first sample has 3"));
  CHECK_THROWS_WITH(read("1,2,0.5\n"), Contains("column 3: '0.5' is no label; valid: whole numbers from 0 to 9999"));
  CHECK_THROWS_WITH(read("1,2,-1\n"), Contains("'-1' is no label"));
  CHECK_THROWS_WITH(read("1,2,99999\n"), Contains("'99999' is no label"));
  CHECK_THROWS_WITH(read("7\n"), Contains("there is one column"));
  CHECK_THROWS_WITH(read("1,0\n2,0\n"), Contains("all labels are 0"));
}

TEST_CASE("the digits come with the project; a quarter is held out") {
  const mlp::Split split = mlp::load("digits", LabelColumn::last, 0);
  CHECK(split.train.features == 64);
  CHECK(split.train.classes == 10);
  CHECK(split.test.size() == 449);
  CHECK(split.train.size() == 1348);
  CHECK(*std::max_element(split.train.inputs.begin(), split.train.inputs.end()) == 1.0f);
  CHECK(*std::min_element(split.train.inputs.begin(), split.train.inputs.end()) == 0.0f);
  CHECK(mlp::load("digits", LabelColumn::last, 0).test.labels == split.test.labels);
  CHECK(mlp::load("digits", LabelColumn::last, 1).test.labels != split.test.labels);
}

TEST_CASE("a data set that is not there is an error that says what is") {
  const Directory dir;
  CHECK_THROWS_WITH(mlp::load("nonsense", LabelColumn::last, 0),
                    Contains("no data set 'nonsense'; valid: digits, fashion-mnist"));
  CHECK_THROWS_WITH(mlp::load(dir.path, LabelColumn::last, 0), Contains("holds none of train-"));
  CHECK_THROWS_WITH(mlp::load(dir.write("s.csv", "1,0\n2,1\n3,0\n"), LabelColumn::last, 0), Contains("3 samples"));
}
