#include "src/base/env.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tutti/error.h"
#include "tutti/types.h"

using namespace tutti;
using namespace tutti::base;

TEST_CASE("sizes take suffixes in either case") {
  CHECK(parse_bytes("x", "0") == 0);
  CHECK(parse_bytes("x", "64") == 64);
  CHECK(parse_bytes("x", "2k") == 2048);
  CHECK(parse_bytes("x", "1.5M") == 3u << 19);
  CHECK(parse_bytes("x", "2GiB") == std::size_t{2} << 30);
}

TEST_CASE("bad text is refused by an error that names source, value and valid values") {
  for (const char* bad : {"", "M", "-1", "1x", "1e3", "nan", "inf", "0.3", "1 K", "99999999999999999999"}) {
    INFO(bad);
    CHECK_THROWS_WITH(parse_bytes("--begin", bad),
                      Catch::Contains("--begin is '" + std::string(bad) + "'") && Catch::Contains("valid:"));
  }
  CHECK_THROWS_WITH(parse_integer("RANK", "3x", 0, 7), "RANK is '3x'; valid: a whole number from 0 to 7");
  CHECK_THROWS_AS(parse_integer("RANK", "8", 0, 7), Error);
  CHECK_THROWS_WITH(parse_choice("TUTTI_ALGO", "rnig", {"ring", "tree"}), "TUTTI_ALGO is 'rnig'; valid: ring, tree");
  CHECK_THROWS_AS(parse_duration("t", "5 parsecs"), Error);
}

TEST_CASE("durations, integers and choices") {
  CHECK(parse_duration("t", "10").count() == 10'000);
  CHECK(parse_duration("t", "250ms").count() == 250);
  CHECK(parse_duration("t", "1.5min").count() == 90'000);
  CHECK(parse_integer("x", "-3", -5, 5) == -3);
  CHECK(parse_choice("x", "Ring", {"ring", "tree"}) == "ring");
}

TEST_CASE("every type and op has a name that reads back") {
  for (int i = 0; i < kDataTypes; ++i)
    CHECK(data_type_from_name(name_of(static_cast<DataType>(i))) == static_cast<DataType>(i));
  for (int i = 0; i < kReduceOps; ++i)
    CHECK(reduce_op_from_name(name_of(static_cast<ReduceOp>(i))) == static_cast<ReduceOp>(i));
  CHECK(data_type_from_name("float16") == DataType::float16);
  CHECK_FALSE(data_type_from_name("float17"));
  CHECK(data_type_from_name("boolean") == DataType::boolean);
  CHECK(reduce_op_from_name("premul_sum") == ReduceOp::premul_sum);
  CHECK(data_type_of<bool>() == DataType::boolean);
  CHECK(data_type_of<std::int16_t>() == DataType::int16);
  CHECK(data_type_of<std::uint16_t>() == DataType::uint16);
}

TEST_CASE("a factor from memory is the number of that element") {
  const auto of = [](DataType type, std::uint64_t bits) { return Factor::from_element(type, &bits); };
  CHECK(of(DataType::int8, 0xfd) == Factor(std::int8_t{-3}));
  CHECK(of(DataType::uint8, 0xfd) == Factor(std::uint8_t{253}));
  CHECK(of(DataType::int16, 0xfffd) == Factor(std::int16_t{-3}));
  CHECK(of(DataType::uint16, 0xfffd) == Factor(std::uint16_t{65533}));
  CHECK(of(DataType::int32, 0xfffffffd) == Factor(std::int32_t{-3}));
  CHECK(of(DataType::uint32, 0xfffffffd) == Factor(std::uint32_t{0xfffffffd}));
  CHECK(of(DataType::int64, ~std::uint64_t{2}) == Factor(std::int64_t{-3}));
  CHECK(of(DataType::uint64, ~std::uint64_t{2}) == Factor(~std::uint64_t{2}));
  CHECK(of(DataType::float32, 0xc0400000) == Factor(-3.0f));
  CHECK(of(DataType::float64, 0xc008000000000000) == Factor(-3.0));
  CHECK(of(DataType::float16, 0xc200) == Factor(-3.0f));
  CHECK(of(DataType::float16, 0x0001) == Factor(0x1p-24f));
  CHECK(of(DataType::float16, 0x7bff) == Factor(65504.0f));
  CHECK(of(DataType::bfloat16, 0xc040) == Factor(-3.0f));
  CHECK(of(DataType::bfloat16, 0x0001) == Factor(0x1p-133f));
  CHECK(of(DataType::float8_e4m3, 0x7e) == Factor(448.0f));
  CHECK(of(DataType::float8_e4m3, 0x81) == Factor(-0x1p-9f));
  CHECK(of(DataType::float8_e5m2, 0x7b) == Factor(57344.0f));
  CHECK(of(DataType::float8_e5m2, 0xfc) == Factor(-std::numeric_limits<float>::infinity()));
  CHECK(of(DataType::float8_e4m3, 0x7f) == Factor(std::numeric_limits<float>::quiet_NaN()));
  CHECK_THROWS_WITH(of(static_cast<DataType>(15), 0), Catch::Contains("data type is 15; valid: 0 to 14"));
}
