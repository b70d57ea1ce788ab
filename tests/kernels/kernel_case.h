// One call of a kernel: what it is given, where its data lie, and what must come out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/reducer.h"
#include "tests/kernels/guarded_buffer.h"

// A small generator whose numbers do not depend on the standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// The bits of an element: mostly arbitrary, often small numbers, now and then zeros, denormals, infinities and NaNs.
std::uint64_t random_element(tutti::DataType type, Random& random);

// The bits of a factor for such elements (ReduceInput::factor): any number, often one that rounds or is special.
std::uint64_t random_factor(tutti::DataType type, Random& random);

// Where one buffer lies: its first byte `offset` after a guard page, or its last byte `offset` before one.
struct Placement {
  bool at_end = false;
  std::size_t offset = 0;
};

struct KernelCase {
  tutti::DataType type = tutti::DataType::float32;
  tutti::ReduceOp op = tutti::ReduceOp::sum;
  std::size_t count = 0;
  std::vector<std::vector<std::uint64_t>> in;  // the elements' bits
  std::vector<bool> prescale;                  // per input
  std::vector<std::uint64_t> factor;           // per input, as ReduceInput has it; may be empty when none is scaled
  int divisor = 1;
  std::vector<Placement> in_at;
  std::vector<Placement> out_at;
  std::vector<bool> streaming;          // per output
  std::optional<std::size_t> in_place;  // output 0 is this input
};

// A case with everything but the four arguments drawn at random.
KernelCase random_case(tutti::DataType type, tutti::ReduceOp op, std::size_t ins, std::size_t outs, std::size_t count,
                       Random& random);

std::vector<std::uint64_t> expected_result(const KernelCase& c);

// Runs cases in guarded memory, which it keeps between them.
class KernelRunner {
 public:
  // What is wrong with the kernel's answer; nothing when it is right to the last bit and no other byte has changed.
  std::optional<std::string> fault(const tutti::runtime::Kernels& kernels, const KernelCase& c,
                                   const std::vector<std::uint64_t>& expected);
  // The same for the copy function: `bytes` of input 0's elements are ignored, the data are arbitrary.
  std::optional<std::string> copy_fault(const tutti::runtime::Kernels& kernels, std::size_t bytes, Placement in_at,
                                        const std::vector<Placement>& out_at, const std::vector<bool>& streaming);

 private:
  std::byte* place(std::size_t index, Placement at, std::size_t bytes);

  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};
