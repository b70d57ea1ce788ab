#include "tests/kernels/kernel_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tests/kernels/reference.h"

namespace {

using namespace tutti;
using runtime::ReduceInput;
using runtime::ReduceOutput;

constexpr std::size_t kBufferBytes = 80 * 1024;
constexpr std::size_t kMargin = 192;  // bytes watched on both sides of an output
constexpr std::byte kUntouched{0xa5};

Placement random_placement(Random& random) { return {random.one_in(2), random.one_in(3) ? 0 : random.below(65)}; }

std::string describe(const KernelCase& c) {
  std::ostringstream text;
  text << name_of(c.type) << " " << name_of(c.op) << " of " << c.in.size() << " inputs to " << c.out_at.size()
       << " outputs, count " << c.count << ", divisor " << c.divisor;
  for (std::size_t i = 0; i < c.in.size(); ++i)
    text << (i == 0 ? "; inputs" : ",") << (c.in_at[i].at_end ? " end-" : " +") << c.in_at[i].offset
         << (c.prescale[i] ? "*" + std::to_string(c.factor[i]) : "");
  for (std::size_t o = 0; o < c.out_at.size(); ++o)
    text << (o == 0 ? "; outputs" : ",") << (c.out_at[o].at_end ? " end-" : " +") << c.out_at[o].offset
         << (c.streaming[o] ? " streaming" : "");
  if (c.in_place) text << "; in place of input " << *c.in_place;
  return text.str();
}

void write_elements(std::byte* to, const std::vector<std::uint64_t>& elements, std::size_t size) {
  for (std::size_t i = 0; i < elements.size(); ++i) std::memcpy(to + i * size, &elements[i], size);
}

std::optional<std::size_t> first_difference(const std::byte* at, const std::vector<std::uint64_t>& elements,
                                            std::size_t size) {
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (std::memcmp(at + i * size, &elements[i], size) != 0) return i;
  return std::nullopt;
}

// The watched bytes around a buffer.
class Margins {
 public:
  Margins(const GuardedBuffer& buffer, std::byte* data, std::size_t bytes)
      : data_(data),
        end_(data + bytes),
        before_(std::max(buffer.begin(), data - std::min<std::ptrdiff_t>(kMargin, data - buffer.begin()))),
        after_(end_ + std::min<std::ptrdiff_t>(kMargin, buffer.end() - end_)) {
    std::fill(before_, data_, kUntouched);
    std::fill(end_, after_, kUntouched);
  }
  bool untouched() const {
    const auto is_untouched = [](std::byte b) { return b == kUntouched; };
    return std::all_of(before_, data_, is_untouched) && std::all_of(end_, after_, is_untouched);
  }

 private:
  std::byte* data_;
  std::byte* end_;
  std::byte* before_;
  std::byte* after_;
};

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t random_element(DataType type, Random& random) {
  if (type == DataType::boolean) return random.one_in(3) ? 0 : random.one_in(2) ? 1 : random.below(256);
  const std::size_t bits = 8 * size_of(type);
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  if (!reference::is_floating(type)) return random.next() & mask;
  const int mantissa_bits[] = {10, 23, 52, 7, 3, 2};
  const int mantissa = mantissa_bits[static_cast<int>(type) - static_cast<int>(DataType::float16)];
  const std::uint64_t sign = random.next() << (bits - 1) & mask;
  const std::uint64_t exponent_mask = (mask >> 1) >> mantissa << mantissa;
  switch (random.below(40)) {
    case 0: return sign;                                                                                     // zero
    case 1: return sign | (random.next() & ~exponent_mask & (mask >> 1));                                    // denormal
    case 2: return sign | (exponent_mask - 1);                                                               // large
    case 3: return sign | (random.one_in(2) ? exponent_mask : exponent_mask | (mask >> 1 & random.next()));  // inf, NaN
    default: break;
  }
  if (random.one_in(6)) return random.next() & mask;
  // Within a few powers of two of 1, so that sums round and cancel.
  const std::uint64_t one = exponent_mask >> 1 & exponent_mask;
  const std::uint64_t step = std::uint64_t{1} << mantissa;
  const std::uint64_t exponent = one + (random.below(5) * step) - 2 * step;
  return (sign | exponent | (random.next() & (step - 1))) & mask;
}

std::uint64_t random_factor(DataType type, Random& random) {
  const double numbers[] = {1, 0.5, 1.0 / 3, -2.75, 1e10, -0.0, 0x1p-140, HUGE_VAL, std::nan("")};
  const double number = numbers[random.below(std::size(numbers))];
  if (!reference::is_floating(type) || random.one_in(4)) return random.next();
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(number);
  return std::bit_cast<std::uint32_t>(static_cast<float>(number));
}

KernelCase random_case(DataType type, ReduceOp op, std::size_t ins, std::size_t outs, std::size_t count,
                       Random& random) {
  KernelCase c;
  c.type = type;
  c.op = op;
  c.count = count;
  const bool scales = op == ReduceOp::avg || op == ReduceOp::premul_sum;
  const bool prescaled = scales && !random.one_in(3);
  for (std::size_t i = 0; i < ins; ++i) {
    std::vector<std::uint64_t> elements(count);
    for (std::uint64_t& element : elements) element = random_element(type, random);
    c.in.push_back(std::move(elements));
    c.prescale.push_back(prescaled && random.one_in(2));
    c.factor.push_back(random_factor(type, random));
    c.in_at.push_back(random_placement(random));
  }
  const bool all_stream = random.one_in(3);  // past the caches as the executor asks for it: alike, and side by side
  const Placement together = random_placement(random);
  for (std::size_t o = 0; o < outs; ++o) {
    c.out_at.push_back(all_stream ? together : random_placement(random));
    c.streaming.push_back(all_stream || random.one_in(2));
  }
  const int divisors[] = {2, 3, 7, 64, 300, 100003};
  if (scales && random.one_in(3)) c.divisor = divisors[random.below(6)];
  if (op == ReduceOp::avg && random.one_in(2)) c.divisor = static_cast<int>(ins);
  if (random.one_in(3)) c.in_place = random.below(ins);
  return c;
}

std::vector<std::uint64_t> expected_result(const KernelCase& c) {
  std::vector<std::uint64_t> result(c.count);
  // A single input that is not scaled is copied, not computed with, unless it is made 0 or 1.
  if (c.in.size() == 1 && !c.prescale[0] && c.divisor == 1 && c.type != DataType::boolean) return c.in[0];
  std::vector<reference::Operand> operands(c.in.size());
  for (std::size_t e = 0; e < c.count; ++e) {
    for (std::size_t i = 0; i < c.in.size(); ++i)
      operands[i] = {c.in[i][e], c.prescale[i], c.prescale[i] ? c.factor[i] : 0};
    result[e] = reference::reduce(c.type, c.op, operands, c.divisor);
  }
  return result;
}

std::byte* KernelRunner::place(std::size_t index, Placement at, std::size_t bytes) {
  while (buffers_.size() <= index) buffers_.push_back(std::make_unique<GuardedBuffer>(kBufferBytes));
  if (bytes + at.offset > kBufferBytes) throw std::logic_error("the case does not fit the test's buffers");
  return at.at_end ? buffers_[index]->end() - bytes - at.offset : buffers_[index]->begin() + at.offset;
}

std::optional<std::string> KernelRunner::fault(const runtime::Kernels& kernels, const KernelCase& c,
                                               const std::vector<std::uint64_t>& expected) {
  const std::size_t size = size_of(c.type);
  std::vector<ReduceInput> in;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    std::byte* data = place(i, c.in_at[i], c.count * size);
    write_elements(data, c.in[i], size);
    in.push_back({data, c.prescale[i], c.prescale[i] ? c.factor[i] : 0});
  }
  std::vector<ReduceOutput> out;
  std::vector<Margins> margins;
  for (std::size_t o = 0; o < c.out_at.size(); ++o) {
    const bool in_place = o == 0 && c.in_place;
    const std::size_t index = in_place ? *c.in_place : c.in.size() + o;
    std::byte* data = place(index, in_place ? c.in_at[index] : c.out_at[o], c.count * size);
    margins.emplace_back(*buffers_[index], data, c.count * size);
    if (!in_place) std::fill(data, data + c.count * size, kUntouched);
    out.push_back({data, c.streaming[o]});
  }

  kernels.reduce[static_cast<std::size_t>(c.type)][static_cast<std::size_t>(c.op)]({in, out, c.count, c.divisor});

  std::ostringstream text;
  text << kernels.name << ": " << describe(c) << ": ";
  for (std::size_t o = 0; o < out.size(); ++o) {
    if (const auto at = first_difference(out[o].data, expected, size)) {
      std::uint64_t got = 0;
      std::memcpy(&got, out[o].data + *at * size, size);
      text << "output " << o << ", element " << *at << " is 0x" << std::hex << got << ", not 0x" << expected[*at]
           << "; operands";
      for (const auto& elements : c.in) text << " 0x" << elements[*at];
      return text.str();
    }
    if (!margins[o].untouched()) return text.str() + "bytes beside output " + std::to_string(o) + " were written";
  }
  for (std::size_t i = 0; i < in.size(); ++i)
    if (c.in_place != i && first_difference(in[i].data, c.in[i], size))
      return text.str() + "input " + std::to_string(i) + " was written";
  return std::nullopt;
}

std::optional<std::string> KernelRunner::copy_fault(const runtime::Kernels& kernels, std::size_t bytes, Placement in_at,
                                                    const std::vector<Placement>& out_at,
                                                    const std::vector<bool>& streaming) {
  Random random(bytes);
  std::byte* in = place(0, in_at, bytes);
  std::vector<std::byte> expected(bytes);
  for (std::byte& b : expected) b = static_cast<std::byte>(random.next());
  std::copy(expected.begin(), expected.end(), in);
  std::vector<ReduceOutput> out;
  std::vector<Margins> margins;
  for (std::size_t o = 0; o < out_at.size(); ++o) {
    std::byte* data = place(1 + o, out_at[o], bytes);
    margins.emplace_back(*buffers_[1 + o], data, bytes);
    std::fill(data, data + bytes, kUntouched);
    out.push_back({data, streaming[o]});
  }

  kernels.copy(out, in, bytes);

  std::ostringstream text;
  text << kernels.name << ": copy of " << bytes << " bytes to " << out.size() << " outputs: ";
  for (std::size_t o = 0; o < out.size(); ++o) {
    if (!std::equal(expected.begin(), expected.end(), out[o].data))
      return text.str() + "output " + std::to_string(o) + " differs";
    if (!margins[o].untouched()) return text.str() + "bytes beside output " + std::to_string(o) + " were written";
  }
  if (!std::equal(expected.begin(), expected.end(), in)) return text.str() + "the input was written";
  return std::nullopt;
}
