#include "src/base/env.h"

#include <catch2/catch.hpp>

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
}
