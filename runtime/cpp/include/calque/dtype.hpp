// Element types: the enumeration, their C++ types, and the types that C++ lacks (bits only).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "calque/export.hpp"

namespace calque {

// The order is that of calque.runtime.hosting.DTYPES.
enum class DType : int {
  boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
  float16, bfloat16, float32, float64, complex64, complex128,
  float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
  float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e8m0fnu, float4_e2m1fn,
  int2, int4, uint2, uint4,
};

// NumPy's name of a type ("float32"), and the bytes of one element.
CALQUE_API const char* name_of(DType dtype) noexcept;
CALQUE_API std::size_t size_of(DType dtype) noexcept;

// Bits of the small floats.  float16 and bfloat16 convert from float (to nearest, ties to even) and
// to float (exactly).
struct CALQUE_API float16 {
  std::uint16_t bits;
  float16() = default;
  explicit float16(float value) noexcept;
  explicit operator float() const noexcept;
};
struct CALQUE_API bfloat16 {
  std::uint16_t bits;
  bfloat16() = default;
  explicit bfloat16(float value) noexcept;
  explicit operator float() const noexcept;
};
struct float8_e4m3fn { std::uint8_t bits; };
struct float8_e5m2 { std::uint8_t bits; };
struct float8_e4m3fnuz { std::uint8_t bits; };
struct float8_e5m2fnuz { std::uint8_t bits; };
struct float8_e3m4 { std::uint8_t bits; };
struct float8_e4m3 { std::uint8_t bits; };
struct float8_e4m3b11fnuz { std::uint8_t bits; };
struct float8_e8m0fnu { std::uint8_t bits; };
// Of less than a byte: each takes one, whose low bits count; the others are 0 in results.
struct float4_e2m1fn { std::uint8_t bits; };
struct int2 { std::uint8_t bits; };
struct int4 { std::uint8_t bits; };
struct uint2 { std::uint8_t bits; };
struct uint4 { std::uint8_t bits; };

// dtype_of<float>::value is DType::float32; a type without one does not compile.
template <class T> struct dtype_of;
#define CALQUE_DTYPE(type, name) \
  template <> struct dtype_of<type> { static constexpr DType value = DType::name; }
CALQUE_DTYPE(bool, boolean);
CALQUE_DTYPE(std::int8_t, int8);
CALQUE_DTYPE(std::int16_t, int16);
CALQUE_DTYPE(std::int32_t, int32);
CALQUE_DTYPE(std::int64_t, int64);
CALQUE_DTYPE(std::uint8_t, uint8);
CALQUE_DTYPE(std::uint16_t, uint16);
CALQUE_DTYPE(std::uint32_t, uint32);
CALQUE_DTYPE(std::uint64_t, uint64);
CALQUE_DTYPE(calque::float16, float16);
CALQUE_DTYPE(calque::bfloat16, bfloat16);
CALQUE_DTYPE(float, float32);
CALQUE_DTYPE(double, float64);
CALQUE_DTYPE(std::complex<float>, complex64);
CALQUE_DTYPE(std::complex<double>, complex128);
CALQUE_DTYPE(calque::float8_e4m3fn, float8_e4m3fn);
CALQUE_DTYPE(calque::float8_e5m2, float8_e5m2);
CALQUE_DTYPE(calque::float8_e4m3fnuz, float8_e4m3fnuz);
CALQUE_DTYPE(calque::float8_e5m2fnuz, float8_e5m2fnuz);
CALQUE_DTYPE(calque::float8_e3m4, float8_e3m4);
CALQUE_DTYPE(calque::float8_e4m3, float8_e4m3);
CALQUE_DTYPE(calque::float8_e4m3b11fnuz, float8_e4m3b11fnuz);
CALQUE_DTYPE(calque::float8_e8m0fnu, float8_e8m0fnu);
CALQUE_DTYPE(calque::float4_e2m1fn, float4_e2m1fn);
CALQUE_DTYPE(calque::int2, int2);
CALQUE_DTYPE(calque::int4, int4);
CALQUE_DTYPE(calque::uint2, uint2);
CALQUE_DTYPE(calque::uint4, uint4);
#undef CALQUE_DTYPE

static_assert(sizeof(bool) == 1, "a bool array has one byte an element");

}  // namespace calque
