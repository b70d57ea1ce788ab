// The one reduction loop, for every type, operation and instruction set, and the copy, which is its case of one input.
//
// 1. With a streaming output: elements up to the first 64-byte line of that output, as a part of a vector.
// 2. Blocks of kUnroll vectors: load all of input 0, combine input 1, 2, ... left to right, finish, store to each
//    output. All loads of a block come before its stores, so that an output may be equal to an input.
// 3. Single vectors, then the last elements as a part of a vector.
// A part of a vector is copied to a zeroed vector, computed by the same code, and copied back, so nothing outside the
// data is touched. A store streams when its output asks for it and its address is aligned to the vector.
// Memory traffic: every input is read once, every output written once.
#pragma once

#include "kernels/host/elements.h"
#include "src/runtime/reducer.h"

namespace tutti::kernels {

// What the loop needs, in plain pointers: the members of std::span must not be compiled for one instruction set.
struct Operands {
  const runtime::ReduceInput* in;
  const runtime::ReduceOutput* out;
  std::size_t ins;
  std::size_t outs;
  int divisor;
};

// kIns, kOuts: how many inputs and outputs, 0 when known only at run time. kScaled: prescale and postdivide count.
template <class Isa, class Element, class Op, int kIns, int kOuts, bool kScaled>
struct Reduction {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  static constexpr int kStep = sizeof(Stored);  // bytes of one vector in memory
  static constexpr int kUnroll = 4;             // so many loads of each input are in flight together
  static constexpr std::size_t kLine = 64;
  // Whether it has loops of their own for outputs that are alike: where they pay for their code.
  static constexpr bool kAlike = !kScaled && (kIns != 0 || std::is_same_v<Op, Sum>);

  const Operands& operands;
  std::size_t ins() const { return kIns != 0 ? kIns : operands.ins; }
  std::size_t outs() const { return kOuts != 0 ? kOuts : operands.outs; }

  TUTTI_INLINE Value take(std::size_t input, Stored stored) const {
    const Value value = Element::widen(stored);
    if constexpr (kScaled)
      if (operands.in[input].prescale) return Element::prescale(value, operands.in[input].factor);
    return value;
  }

  TUTTI_INLINE Stored finish(Value value) const {
    if constexpr (kScaled)
      if (operands.divisor != 1) return Element::narrow(Element::divide(value, operands.divisor));
    return Element::narrow(value);
  }

  // kVectors whole vectors at byte offset `at`.
  template <int kVectors>
  TUTTI_INLINE void block(std::size_t at) const {
    Stored stored[kVectors];
    for (int v = 0; v < kVectors; ++v) stored[v] = load<Stored>(operands.in[0].data + at + v * kStep);
    if (kIns != 1 || kScaled) {
      Value value[kVectors];
      for (int v = 0; v < kVectors; ++v) value[v] = take(0, stored[v]);
      for (std::size_t i = 1; i < ins(); ++i)
        for (int v = 0; v < kVectors; ++v)
          value[v] = Op::template apply<Element>(value[v], take(i, load<Stored>(operands.in[i].data + at + v * kStep)));
      for (int v = 0; v < kVectors; ++v) stored[v] = finish(value[v]);
    }
    for (std::size_t o = 0; o < outs(); ++o) {
      std::byte* to = operands.out[o].data + at;
      if (operands.out[o].streaming && reinterpret_cast<std::uintptr_t>(to) % kStep == 0)
        for (int v = 0; v < kVectors; ++v) Isa::stream(to + v * kStep, stored[v]);
      else
        for (int v = 0; v < kVectors; ++v) store(to + v * kStep, stored[v]);
    }
  }

  // The same for `bytes` < kStep, a whole number of elements.
  [[gnu::noinline]] void part(std::size_t at, std::size_t bytes) const {
    Value value{};
    for (std::size_t i = 0; i < ins(); ++i) {
      const Stored stored = load_part(operands.in[i].data + at, bytes);
      if (kIns == 1 && !kScaled) return store_part(at, bytes, stored);
      const Value operand = take(i, stored);
      value = i == 0 ? operand : Op::template apply<Element>(value, operand);
    }
    store_part(at, bytes, finish(value));
  }

  TUTTI_INLINE void store_part(std::size_t at, std::size_t bytes, Stored stored) const {
    for (std::size_t o = 0; o < outs(); ++o) {
      std::byte* const to = operands.out[o].data + at;
      if constexpr (kStep >= 16)
        if (bytes % 8 == 0 && bytes <= 16) {
          const Words words = (Words)stored;
          store(to, words[0]);
          if (bytes == 16) store(to + 8, words[1]);
          continue;
        }
      copy_part(to, reinterpret_cast<const std::byte*>(&stored), bytes);
    }
  }

  // One or two words go through registers: a vector that is read from memory right after a part of it was written
  // there makes the processor wait, and the smallest calls are made of such.
  using Words = Vector<std::uint64_t, (kStep >= 16 ? kStep : 16)>;
  TUTTI_INLINE static Stored load_part(const std::byte* from, std::size_t bytes) {
    if constexpr (kStep >= 16)
      if (bytes % 8 == 0 && bytes <= 16) {
        Words words{};
        words[0] = load<std::uint64_t>(from);
        if (bytes == 16) words[1] = load<std::uint64_t>(from + 8);
        return (Stored)words;
      }
    Stored stored{};
    copy_part(reinterpret_cast<std::byte*>(&stored), from, bytes);
    return stored;
  }

  TUTTI_INLINE static void copy_part(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::size_t done = 0;
    if constexpr (kStep > 32) done += copy_if<32>(to + done, from + done, bytes);
    if constexpr (kStep > 16) done += copy_if<16>(to + done, from + done, bytes);
    if constexpr (kStep > 8) done += copy_if<8>(to + done, from + done, bytes);
    if constexpr (kStep > 4) done += copy_if<4>(to + done, from + done, bytes);
    if constexpr (Element::kSize < 4) done += copy_if<2>(to + done, from + done, bytes);
    if constexpr (Element::kSize < 2) done += copy_if<1>(to + done, from + done, bytes);
  }

  template <std::size_t kPower>
  TUTTI_INLINE static std::size_t copy_if(std::byte* to, const std::byte* from, std::size_t bytes) {
    if ((bytes & kPower) == 0) return 0;
    __builtin_memcpy(to, from, kPower);
    return kPower;
  }

  // Bytes before the first whole line of the first output that can stream; 0 when none can.
  std::size_t bytes_to_line() const {
    for (std::size_t o = 0; o < outs(); ++o) {
      const auto address = reinterpret_cast<std::uintptr_t>(operands.out[o].data);
      if (operands.out[o].streaming && address % Element::kSize == 0) return (kLine - address % kLine) % kLine;
    }
    return 0;
  }

  // Blocks where prescale and postdivide do not count and the outputs are alike, all to stream or none: returns where
  // it stopped. The pointers are copied, since for all the compiler knows every store might change them; reading them
  // again for every block would leave fewer lines in flight.
  static constexpr std::size_t kMostAlike = 16;
  template <bool kStreaming>
  TUTTI_INLINE std::size_t blocks_alike(std::size_t at, std::size_t bytes) const {
    const std::size_t ins = this->ins(), outs = this->outs();
    if (ins > kMostAlike || outs > kMostAlike) return at;
    const std::byte* from[kIns != 0 ? kIns : kMostAlike];
    std::byte* to[kOuts != 0 ? kOuts : kMostAlike];
    for (std::size_t i = 0; i < ins; ++i) from[i] = operands.in[i].data;
    for (std::size_t o = 0; o < outs; ++o) {
      to[o] = operands.out[o].data;
      if (operands.out[o].streaming != kStreaming) return at;
      if (kStreaming && reinterpret_cast<std::uintptr_t>(to[o] + at) % kStep != 0) return at;
    }
    for (; bytes - at >= kUnroll * kStep; at += kUnroll * kStep) {
      Value value[kUnroll];
      for (int v = 0; v < kUnroll; ++v) value[v] = Element::widen(load<Stored>(from[0] + at + v * kStep));
      for (std::size_t i = 1; i < ins; ++i)
        for (int v = 0; v < kUnroll; ++v)
          value[v] = Op::template apply<Element>(value[v], Element::widen(load<Stored>(from[i] + at + v * kStep)));
      Stored stored[kUnroll];
      for (int v = 0; v < kUnroll; ++v) stored[v] = Element::narrow(value[v]);
      for (std::size_t o = 0; o < outs; ++o)
        for (int v = 0; v < kUnroll; ++v)
          if constexpr (kStreaming)
            Isa::stream(to[o] + at + v * kStep, stored[v]);
          else
            store(to[o] + at + v * kStep, stored[v]);
    }
    return at;
  }

  void run(std::size_t bytes) const {
    std::size_t head = bytes_to_line();
    if (head > bytes) head = 0;
    // Up to the line, the first part makes every further step end on a vector of the output.
    std::size_t at = head % kStep;
    if (at != 0) part(0, at);
    while (at < head && bytes - at >= kStep) {
      block<1>(at);
      at += kStep;
    }
    if constexpr (kAlike)
      if (outs() != 0) at = operands.out[0].streaming ? blocks_alike<true>(at, bytes) : blocks_alike<false>(at, bytes);
    while (bytes - at >= kStep) {
      if (at >= head && bytes - at >= kUnroll * kStep) {
        block<kUnroll>(at);
        at += kUnroll * kStep;
      } else {
        block<1>(at);
        at += kStep;
      }
    }
    if (at < bytes) part(at, bytes - at);
    for (std::size_t o = 0; o < outs(); ++o)
      if (operands.out[o].streaming) return Isa::fence();
  }
};

template <class Isa>
using ByteElement = IntegerElement<Isa, std::uint8_t>;

template <class Isa>
void copy(std::span<const runtime::ReduceOutput> out, const std::byte* in, std::size_t bytes) {
  const runtime::ReduceInput input{in, false, 0};
  const Operands operands{&input, out.data(), 1, out.size(), 1};
  if (out.size() != 1) return Reduction<Isa, ByteElement<Isa>, Sum, 1, 0, false>{operands}.run(bytes);
  if (out.data()->streaming) return Reduction<Isa, ByteElement<Isa>, Sum, 1, 1, false>{operands}.run(bytes);
  if (out.data()->data != in && bytes != 0) __builtin_memcpy(out.data()->data, in, bytes);
}

template <class Isa, class Element, class Op>
[[gnu::noinline]] void reduce_bytes(const runtime::ReduceArgs& args, std::size_t bytes) {
  const Operands operands{args.in.data(), args.out.data(), args.in.size(), args.out.size(), 1};
  if (Element::kPassesUnchanged && operands.ins == 1) return copy<Isa>(args.out, operands.in[0].data, bytes);
  if (operands.outs == 1 && operands.ins == 2) return Reduction<Isa, Element, Op, 2, 1, false>{operands}.run(bytes);
  // The rest of the special cases for sums alone: each costs a copy of the code for every type and operation.
  if constexpr (std::is_same_v<Op, Sum>) {
    if (operands.outs == 2 && operands.ins == 2) return Reduction<Isa, Element, Op, 2, 2, false>{operands}.run(bytes);
    if (operands.outs == 1) return Reduction<Isa, Element, Op, 0, 1, false>{operands}.run(bytes);
  }
  return Reduction<Isa, Element, Op, 0, 0, false>{operands}.run(bytes);
}

template <class Isa, class Element, class Op>
void reduce(const runtime::ReduceArgs& args) {
  reduce_bytes<Isa, Element, Op>(args, args.count * Element::kSize);
}

// Bitwise operations take the elements of any type as bytes; kSize: how many make an element.
template <class Isa, class Op, int kSize>
void reduce_bits(const runtime::ReduceArgs& args) {
  reduce_bytes<Isa, ByteElement<Isa>, Op>(args, args.count * kSize);
}

// avg and premul_sum: the sum, with prescale and postdivide where a Step asks for them.
template <class Isa, class Element, class Summed>
void scaled_sum(const runtime::ReduceArgs& args) {
  const Operands operands{args.in.data(), args.out.data(), args.in.size(), args.out.size(), args.postdivide};
  bool scaled = operands.divisor != 1;
  for (std::size_t i = 0; i < operands.ins; ++i) scaled |= operands.in[i].prescale;
  if (!scaled) return reduce<Isa, Summed, Sum>(args);
  return Reduction<Isa, Element, Sum, 0, 0, true>{operands}.run(args.count * Element::kSize);
}

// A type's row of the table, in the order of ReduceOp. Signed sums and products have the bits of the unsigned ones.
template <class Isa, class T>
constexpr std::array<runtime::ReduceFn, kReduceOps> integers() {
  using Element = IntegerElement<Isa, T>;
  using Unsigned = IntegerElement<Isa, std::make_unsigned_t<T>>;
  constexpr runtime::ReduceFn kScaled = scaled_sum<Isa, Element, Unsigned>;
  return {reduce<Isa, Unsigned, Sum>,
          reduce<Isa, Unsigned, Prod>,
          reduce<Isa, Element, Max>,
          reduce<Isa, Element, Min>,
          kScaled,
          kScaled,
          reduce_bits<Isa, And, sizeof(T)>,
          reduce_bits<Isa, Or, sizeof(T)>,
          reduce_bits<Isa, Xor, sizeof(T)>};
}

template <class Isa, class Element>
constexpr std::array<runtime::ReduceFn, kReduceOps> floats() {
  constexpr runtime::ReduceFn kScaled = scaled_sum<Isa, Element, Element>;
  return {reduce<Isa, Element, Sum>,
          reduce<Isa, Element, Prod>,
          reduce<Isa, Element, Max>,
          reduce<Isa, Element, Min>,
          kScaled,
          kScaled};
}

template <class Isa>
constexpr std::array<runtime::ReduceFn, kReduceOps> booleans() {
  constexpr runtime::ReduceFn kOr = reduce<Isa, BooleanElement<Isa>, Or>;
  constexpr runtime::ReduceFn kAnd = reduce<Isa, BooleanElement<Isa>, And>;
  return {kOr, kAnd, kOr, kAnd, nullptr, nullptr, kAnd, kOr, reduce<Isa, BooleanElement<Isa>, Xor>};
}

// The rows are in the order of DataType.
template <class Isa>
constexpr runtime::Kernels make_table(std::string_view name) {
  return {name,
          {{integers<Isa, std::int8_t>(), integers<Isa, std::uint8_t>(), integers<Isa, std::int32_t>(),
            integers<Isa, std::uint32_t>(), integers<Isa, std::int64_t>(), integers<Isa, std::uint64_t>(),
            floats<Isa, HalfElement<Isa>>(), floats<Isa, FloatElement<Isa, float>>(),
            floats<Isa, FloatElement<Isa, double>>(), floats<Isa, MiniFloatElement<Isa, Bfloat16>>(),
            floats<Isa, MiniFloatElement<Isa, Float8E4m3>>(), floats<Isa, MiniFloatElement<Isa, Float8E5m2>>(),
            integers<Isa, std::int16_t>(), integers<Isa, std::uint16_t>(), booleans<Isa>()}},
          copy<Isa>};
}

}  // namespace tutti::kernels
