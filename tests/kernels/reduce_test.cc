// Every table of this CPU, every type and operation, against the reference, bit for bit.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "kernels/host/kernels.h"
#include "tests/kernels/kernel_case.h"
#include "tests/kernels/reference.h"

using namespace tutti;

namespace {

// Enough to go through each path of the loop several times for the widest vector and narrowest element.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> list;
  for (std::size_t count = 0; count <= 70; ++count) list.push_back(count);
  for (std::size_t count : {97, 127, 131, 257, 509, 521, 1021, 4099}) list.push_back(count);
  return list;
}

void check(KernelRunner& runner, const KernelCase& c) {
  const auto expected = expected_result(c);
  for (const runtime::Kernels* kernels : kernels::available_host_kernels())
    if (const auto fault = runner.fault(*kernels, c, expected)) FAIL(*fault);
}

std::vector<ReduceOp> ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  for (int op = 0; op < kReduceOps; ++op)
    if (can_reduce(type, static_cast<ReduceOp>(op))) ops.push_back(static_cast<ReduceOp>(op));
  return ops;
}

void check_all(DataType type) {
  KernelRunner runner;
  Random random(static_cast<std::uint64_t>(type));
  for (const ReduceOp op : ops_of(type))
    for (std::size_t ins : {1, 2, 3, 4, 5, 17})
      for (std::size_t outs : {1, 2, 4, 17})
        for (std::size_t count : counts()) check(runner, random_case(type, op, ins, outs, count, random));
}

// Cases of two inputs whose elements run through `first` x `second`.
void check_pairs(DataType type, const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& second) {
  KernelRunner runner;
  for (const ReduceOp op : ops_of(type))
    for (std::uint64_t b : second) {
      KernelCase c;
      c.type = type;
      c.op = op;
      c.divisor = c.op == ReduceOp::avg ? 3 : 1;
      for (std::size_t begin = 0; begin < first.size(); begin += 8192) {
        const std::size_t end = std::min(first.size(), begin + 8192);
        c.in = {{first.begin() + static_cast<std::ptrdiff_t>(begin), first.begin() + static_cast<std::ptrdiff_t>(end)},
                std::vector<std::uint64_t>(end - begin, b)};
        c.count = end - begin;
        c.prescale = {false, false};
        c.in_at = {{}, {}};
        c.out_at = {{}};
        c.streaming = {false};
        check(runner, c);
      }
    }
}

std::vector<std::uint64_t> all_codes(std::uint64_t limit) {
  std::vector<std::uint64_t> codes(limit);
  for (std::uint64_t code = 0; code < limit; ++code) codes[code] = code;
  return codes;
}

// A working case with NaNs, negative zeros and roundings in it, for the planted faults.
KernelCase sample_case(DataType type, ReduceOp op) {
  Random random(7);
  KernelCase c = random_case(type, op, 3, 2, 521, random);
  c.prescale = {false, false, false};
  c.divisor = 1;
  c.in_place.reset();
  return c;
}

// Kernels with one fault each, built on the plain table.
const runtime::Kernels& plain() { return *kernels::available_host_kernels().back(); }

template <DataType kType>
void drops_last_element(const runtime::ReduceArgs& args) {
  runtime::ReduceArgs shorter = args;
  shorter.count = args.count - 1;
  plain().reduce[static_cast<int>(kType)][0](shorter);
}

template <DataType kType>
void writes_one_byte_more(const runtime::ReduceArgs& args) {
  plain().reduce[static_cast<int>(kType)][0](args);
  std::byte* past = args.out[0].data + args.count * size_of(kType);
  *past = std::byte{1};
}

// Two inputs at a time, rounding in between.
template <DataType kType>
void rounds_every_step(const runtime::ReduceArgs& args) {
  const auto fn = plain().reduce[static_cast<int>(kType)][0];
  std::vector<std::byte> sum(args.count * size_of(kType));
  const runtime::ReduceOutput to_sum{sum.data()};
  fn({args.in.subspan(0, 2), {&to_sum, 1}, args.count});
  const runtime::ReduceInput last[] = {{sum.data()}, args.in[2]};
  fn({last, args.out, args.count});
}

// Right but for NaNs, which keep a payload.
void keeps_payload(const runtime::ReduceArgs& args) {
  plain().reduce[static_cast<int>(DataType::float32)][0](args);
  for (std::size_t i = 0; i < args.count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, args.out[1].data + 4 * i, 4);
    if (bits == 0x7fc00000) ++bits;
    std::memcpy(args.out[1].data + 4 * i, &bits, 4);
  }
}

std::optional<std::string> fault_of(runtime::ReduceFn planted, DataType type) {
  KernelCase c = sample_case(type, ReduceOp::sum);
  c.out_at[0] = {false, 3};
  runtime::Kernels broken = plain();
  broken.reduce[static_cast<std::size_t>(type)][0] = planted;
  KernelRunner runner;
  const auto expected = expected_result(c);
  REQUIRE_FALSE(runner.fault(plain(), c, expected));
  return runner.fault(broken, c, expected);
}

// True when reading `at` kills the reading process.
bool read_dies(const std::byte* at) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    [[maybe_unused]] const volatile std::byte value = *static_cast<const volatile std::byte*>(at);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

TEST_CASE("reduce int8") { check_all(DataType::int8); }
TEST_CASE("reduce uint8") { check_all(DataType::uint8); }
TEST_CASE("reduce int32") { check_all(DataType::int32); }
TEST_CASE("reduce uint32") { check_all(DataType::uint32); }
TEST_CASE("reduce int64") { check_all(DataType::int64); }
TEST_CASE("reduce uint64") { check_all(DataType::uint64); }
TEST_CASE("reduce int16") { check_all(DataType::int16); }
TEST_CASE("reduce uint16") { check_all(DataType::uint16); }
TEST_CASE("reduce boolean") { check_all(DataType::boolean); }
TEST_CASE("reduce float16") { check_all(DataType::float16); }
TEST_CASE("reduce float32") { check_all(DataType::float32); }
TEST_CASE("reduce float64") { check_all(DataType::float64); }
TEST_CASE("reduce bfloat16") { check_all(DataType::bfloat16); }
TEST_CASE("reduce float8_e4m3") { check_all(DataType::float8_e4m3); }
TEST_CASE("reduce float8_e5m2") { check_all(DataType::float8_e5m2); }

TEST_CASE("every pair of float8 codes") {
  check_pairs(DataType::float8_e4m3, all_codes(256), all_codes(256));
  check_pairs(DataType::float8_e5m2, all_codes(256), all_codes(256));
}

TEST_CASE("every 16-bit float code with some others") {
  const std::vector<std::uint64_t> partners{0x0000, 0x8000, 0x0001, 0x3c00, 0x3f80,
                                            0xbc01, 0x1234, 0x7c00, 0xff80, 0x7e01};
  check_pairs(DataType::float16, all_codes(65536), partners);
  check_pairs(DataType::bfloat16, all_codes(65536), partners);
}

TEST_CASE("every small float code through prescale alone") {
  KernelRunner runner;
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2}) {
    const std::vector<std::uint64_t> codes = all_codes(reference::format_of(type).codes());
    for (const float factor : {1.0f, 0.1f, 3.0f, 0x1p-12f})
      for (std::size_t begin = 0; begin < codes.size(); begin += 8192) {
        KernelCase c;
        c.type = type;
        c.in = {{codes.begin() + static_cast<std::ptrdiff_t>(begin),
                 codes.begin() + static_cast<std::ptrdiff_t>(std::min(codes.size(), begin + 8192))}};
        c.count = c.in[0].size();
        c.prescale = {true};
        c.op = ReduceOp::premul_sum;
        c.factor = {Factor(factor).bits()};
        c.in_at = {{}};
        c.out_at = {{}};
        c.streaming = {true};
        check(runner, c);
      }
  }
}

TEST_CASE("every misalignment, streaming or not") {
  KernelRunner runner;
  Random random(3);
  const std::pair<DataType, ReduceOp> pairs[] = {
      {DataType::uint8, ReduceOp::sum},        {DataType::float16, ReduceOp::sum},   {DataType::float32, ReduceOp::sum},
      {DataType::float64, ReduceOp::sum},      {DataType::int64, ReduceOp::bit_xor}, {DataType::boolean, ReduceOp::max},
      {DataType::int16, ReduceOp::premul_sum},
  };
  for (const auto& [type, op] : pairs) {
    for (std::size_t offset = 0; offset < 64; ++offset)
      for (const bool streaming : {false, true})
        for (const std::size_t count : {61, 200, 521}) {
          KernelCase c = random_case(type, op, 2, 2, count, random);
          c.out_at = {{false, offset}, {false, (offset * 5 + 16) % 64}};
          c.streaming = {streaming, true};
          check(runner, c);
        }
  }
}

TEST_CASE("min and max do not depend on the order of the operands") {
  KernelRunner runner;
  for (const DataType type : {DataType::float32, DataType::float64}) {
    const int bits = static_cast<int>(8 * size_of(type));
    const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
    const std::uint64_t nan = bits == 32 ? 0x7f800001 : 0x7ff0000000000001;
    const std::uint64_t infinity = nan - 1;
    const std::vector<std::uint64_t> values{0,   sign,       1,           sign | 1, infinity, sign | infinity,
                                            nan, sign | nan, infinity / 2};
    check_pairs(type, values, values);
  }
}

TEST_CASE("64-bit factors are exact") {
  KernelRunner runner;
  KernelCase c;
  c.type = DataType::uint64;
  c.op = ReduceOp::premul_sum;
  c.count = 9;
  const std::uint64_t factor = 0x9e3779b97f4a7c15, three = 3;  // the first has 64 significant bits
  c.in = {std::vector<std::uint64_t>(c.count, three), std::vector<std::uint64_t>(c.count, factor)};
  c.prescale = {true, true};
  c.factor = {Factor(factor).bits(), Factor(three).bits()};
  c.in_at = {{}, {}};
  c.out_at = {{}};
  c.streaming = {false};
  const auto fault = runner.fault(plain(), c, std::vector<std::uint64_t>(c.count, factor * 6));
  CHECK_FALSE(fault);
}

TEST_CASE("copy to several outputs") {
  KernelRunner runner;
  Random random(5);
  for (const runtime::Kernels* kernels : kernels::available_host_kernels())
    for (std::size_t outs : {1, 2, 3, 5})
      for (std::size_t bytes = 0; bytes < 2100; bytes += bytes < 300 ? 1 : 37) {
        std::vector<Placement> out_at;
        std::vector<bool> streaming;
        for (std::size_t o = 0; o < outs; ++o) {
          out_at.push_back({random.one_in(2), random.one_in(3) ? 0 : random.below(65)});
          streaming.push_back(random.one_in(2));
        }
        const Placement in_at{random.one_in(2), random.below(65)};
        if (const auto fault = runner.copy_fault(*kernels, bytes, in_at, out_at, streaming)) FAIL(*fault);
      }
}

TEST_CASE("the tables are complete, and no output is no harm") {
  for (const runtime::Kernels* kernels : kernels::available_host_kernels()) {
    const float data[3] = {1, 2, 3};
    const runtime::ReduceInput in[] = {{reinterpret_cast<const std::byte*>(data)},
                                       {reinterpret_cast<const std::byte*>(data)}};
    for (std::size_t type = 0; type < kDataTypes; ++type)
      for (std::size_t op = 0; op < kReduceOps; ++op) {
        const runtime::ReduceFn fn = kernels->reduce[type][op];
        INFO(name_of(static_cast<DataType>(type)) << " " << name_of(static_cast<ReduceOp>(op)));
        REQUIRE((fn != nullptr) == can_reduce(static_cast<DataType>(type), static_cast<ReduceOp>(op)));
        if (fn != nullptr) fn({in, {}, 1});
      }
    REQUIRE(kernels->copy != nullptr);
    kernels->copy({}, in[0].data, 3);
  }
}

TEST_CASE("planted faults are found") {
  CHECK(fault_of(drops_last_element<DataType::int32>, DataType::int32));
  CHECK(fault_of(writes_one_byte_more<DataType::int8>, DataType::int8));
  CHECK(fault_of(rounds_every_step<DataType::bfloat16>, DataType::bfloat16));
  CHECK(fault_of(rounds_every_step<DataType::float8_e4m3>, DataType::float8_e4m3));
  CHECK(fault_of(keeps_payload, DataType::float32));
  GuardedBuffer buffer(1);
  CHECK_FALSE(read_dies(buffer.begin()));
  CHECK(read_dies(buffer.begin() - 1));
  CHECK(read_dies(buffer.end()));
}
