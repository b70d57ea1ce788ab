// How each DataType is held while it is reduced, and the operations on it.
//   Stored: a vector of elements as they lie in memory.   Value: the vector the operations work on.
// Integers, float32 and float64 are their own Value; 16- and 8-bit floats compute in float32.
// A factor comes as the bits of a number of the Value's element type; the divisor is rounded to that type.
#pragma once

#include <type_traits>

#include "kernels/host/vector.h"

namespace tutti::kernels {

template <class Isa, class T>
struct IntegerElement {
  using Stored = Vector<T, Isa::kBytes>;
  using Value = Stored;
  using Unsigned = Vector<std::make_unsigned_t<T>, Isa::kBytes>;
  static constexpr int kSize = sizeof(T);
  static constexpr bool kPassesUnchanged = true;  // a single operand is its own reduction, bit for bit

  TUTTI_INLINE static Value widen(Stored stored) { return stored; }
  TUTTI_INLINE static Stored narrow(Value value) { return value; }
  TUTTI_INLINE static Value prescale(Value value, std::uint64_t factor) {
    return bits_as<Value>(bits_as<Unsigned>(value) * static_cast<std::make_unsigned_t<T>>(factor));
  }

  // Toward zero. Up to 32 bits the quotient in double precision is close enough to cut to the right integer.
  [[gnu::noinline]] static Value divide(Value value, int divisor) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    Value result = value;
    for (unsigned lane = 0; lane < sizeof(Value) / sizeof(T); ++lane) {
      if constexpr (sizeof(T) == 8)
        result[lane] = static_cast<T>(value[lane] / static_cast<Wide>(divisor));
      else
        result[lane] = static_cast<T>(static_cast<Wide>(static_cast<double>(value[lane]) / divisor));
    }
    return result;
  }

  // Signed overflow is undefined, unsigned wraps: the same bits.
  TUTTI_INLINE static Value sum(Value a, Value b) {
    return bits_as<Value>(bits_as<Unsigned>(a) + bits_as<Unsigned>(b));
  }
  TUTTI_INLINE static Value prod(Value a, Value b) {
    return bits_as<Value>(bits_as<Unsigned>(a) * bits_as<Unsigned>(b));
  }
  TUTTI_INLINE static Value min(Value a, Value b) { return a < b ? a : b; }
  TUTTI_INLINE static Value max(Value a, Value b) { return a < b ? b : a; }
  TUTTI_INLINE static Value bit_and(Value a, Value b) { return a & b; }
  TUTTI_INLINE static Value bit_or(Value a, Value b) { return a | b; }
  TUTTI_INLINE static Value bit_xor(Value a, Value b) { return a ^ b; }
};

// 0 or 1 as soon as it is read, so that the bitwise operations are the logical ones.
template <class Isa>
struct BooleanElement : IntegerElement<Isa, std::uint8_t> {
  using typename IntegerElement<Isa, std::uint8_t>::Value;
  using typename IntegerElement<Isa, std::uint8_t>::Stored;
  static constexpr bool kPassesUnchanged = false;

  TUTTI_INLINE static Value widen(Stored stored) { return bits_as<Value>(stored != Stored{}) & 1; }
};

// T is float or double.
template <class Isa, class T>
struct FloatOperations {
  using Value = Vector<T, Isa::kBytes>;
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Bits = Vector<Word, Isa::kBytes>;
  static constexpr bool kPassesUnchanged = true;

  TUTTI_INLINE static Value canonical(Value value) { return value == value ? value : Value{} + nan(); }
  TUTTI_INLINE static Value divide(Value value, int divisor) { return value / static_cast<T>(divisor); }
  TUTTI_INLINE static Value multiply(Value value, std::uint64_t factor) {
    return value * __builtin_bit_cast(T, static_cast<Word>(factor));
  }

  TUTTI_INLINE static Value sum(Value a, Value b) { return a + b; }
  TUTTI_INLINE static Value prod(Value a, Value b) { return a * b; }

  // The two selections differ only when a and b are zeros of either sign or one is NaN: or-ing them gives -0 if there
  // is one, and a NaN if there is one.
  TUTTI_INLINE static Value min(Value a, Value b) {
    return bits_as<Value>(bits_as<Bits>(a < b ? a : b) | bits_as<Bits>(b < a ? b : a));
  }
  // Likewise; and-ing gives +0 if there is one, but would lose a NaN.
  TUTTI_INLINE static Value max(Value a, Value b) {
    const Value larger = bits_as<Value>(bits_as<Bits>(b < a ? a : b) & bits_as<Bits>(a < b ? b : a));
    return ((a == a) & (b == b)) ? larger : Value{} + nan();
  }

 private:
  TUTTI_INLINE static T nan() {
    if constexpr (sizeof(T) == 4)
      return __builtin_bit_cast(float, 0x7fc00000u);
    else
      return __builtin_bit_cast(double, std::uint64_t{0x7ff8000000000000});
  }
};

template <class Isa, class T>
struct FloatElement : FloatOperations<Isa, T> {
  using typename FloatOperations<Isa, T>::Value;
  using Stored = Value;
  static constexpr int kSize = sizeof(T);

  TUTTI_INLINE static Value widen(Stored stored) { return stored; }
  TUTTI_INLINE static Stored narrow(Value value) { return FloatElement::canonical(value); }
  TUTTI_INLINE static Value prescale(Value value, std::uint64_t factor) {
    return FloatElement::multiply(value, factor);
  }
};

// What the small formats share: Self has widen and narrow, each one conversion.
template <class Isa, class Self>
struct SmallFloatElement : FloatOperations<Isa, float> {
  using typename FloatOperations<Isa, float>::Value;

  TUTTI_INLINE static Value prescale(Value value, std::uint64_t factor) {
    return Self::widen(Self::narrow(Self::multiply(value, factor)));
  }
};

template <class Isa>
struct HalfElement : SmallFloatElement<Isa, HalfElement<Isa>> {
  using Stored = typename Isa::U16;
  using Value = typename Isa::F;
  static constexpr int kSize = 2;

  TUTTI_INLINE static Value widen(Stored stored) { return Isa::decode_half(stored); }
  TUTTI_INLINE static Stored narrow(Value value) { return Isa::encode_half(value); }
};

template <class Isa, class Format>
struct MiniFloatElement : SmallFloatElement<Isa, MiniFloatElement<Isa, Format>> {
  using Stored = std::conditional_t<Format::kBits == 16, typename Isa::U16, typename Isa::U8>;
  using Value = typename Isa::F;
  static constexpr int kSize = Format::kBits / 8;

  TUTTI_INLINE static Value widen(Stored stored) {
    return Format::template decode<typename Isa::Lanes>(Isa::widen(stored));
  }
  TUTTI_INLINE static Stored narrow(Value value) {
    Stored stored;
    Isa::narrow(Format::template encode<typename Isa::Lanes>(value), stored);
    return stored;
  }
};

struct Sum {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::sum(a, b);
  }
};
struct Prod {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::prod(a, b);
  }
};
struct Max {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::max(a, b);
  }
};
struct Min {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::min(a, b);
  }
};
struct And {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::bit_and(a, b);
  }
};
struct Or {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::bit_or(a, b);
  }
};
struct Xor {
  template <class Element>
  TUTTI_INLINE static typename Element::Value apply(typename Element::Value a, typename Element::Value b) {
    return Element::bit_xor(a, b);
  }
};

}  // namespace tutti::kernels
