#include "calque/dtype.hpp"

#include <cstring>

namespace calque {

namespace {

struct Row {
  const char* name;
  std::size_t size;
};
constexpr Row kRows[] = {
    {"bool", 1},     {"int8", 1},      {"int16", 2},   {"int32", 4},   {"int64", 8},
    {"uint8", 1},    {"uint16", 2},    {"uint32", 4},  {"uint64", 8},  {"float16", 2},
    {"bfloat16", 2}, {"float32", 4},   {"float64", 8}, {"complex64", 8}, {"complex128", 16},
    {"float8_e4m3fn", 1}, {"float8_e5m2", 1}, {"float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", 1},
    {"float8_e3m4", 1}, {"float8_e4m3", 1}, {"float8_e4m3b11fnuz", 1}, {"float8_e8m0fnu", 1},
    {"float4_e2m1fn", 1}, {"int2", 1}, {"int4", 1}, {"uint2", 1}, {"uint4", 1},
};

std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// `value` shifted right, rounded to nearest, ties to even.
std::uint32_t round_shift(std::uint32_t value, int shift) noexcept {
  const std::uint32_t half = (1u << (shift - 1)) - 1 + ((value >> shift) & 1u);
  return (value + half) >> shift;
}

}  // namespace

const char* name_of(DType dtype) noexcept { return kRows[static_cast<int>(dtype)].name; }
std::size_t size_of(DType dtype) noexcept { return kRows[static_cast<int>(dtype)].size; }

bfloat16::bfloat16(float value) noexcept {
  const std::uint32_t word = bits_of(value);
  const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : round_shift(word, 16));
}

bfloat16::operator float() const noexcept { return float_of(std::uint32_t{bits} << 16); }

float16::float16(float value) noexcept {
  const std::uint32_t word = bits_of(value), sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // a NaN stays one, quiet
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // 65520 and more: infinity
  } else if (magnitude >= 0x38800000u) {
    half = round_shift(magnitude - 0x38000000u, 13);  // normal: rebias by 127 - 15
  } else if (magnitude >= 0x33000000u) {
    const int exponent = static_cast<int>(magnitude >> 23);  // 2^-25 and more: subnormal
    half = round_shift((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
  } else {
    half = 0;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

float16::operator float() const noexcept {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x400u) return float_of(sign | ((magnitude << 13) + 0x38000000u));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal and zero: exact
  return float_of(sign | bits_of(value));
}

}  // namespace calque
