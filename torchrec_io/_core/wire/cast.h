// Casts from stored values to the elements of a column. They return false if the value does not
// fit.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

namespace tio {

// Element types without a portable C++ name.
struct Boolean {
  std::uint8_t value;
};
struct Half {
  std::uint16_t bits;
};
struct BrainHalf {
  std::uint16_t bits;
};

template <std::integral T>
bool cast(std::int64_t value, T& out) {
  out = static_cast<T>(value);
  return std::in_range<T>(value);
}

inline bool cast(std::int64_t value, Boolean& out) {
  out.value = static_cast<std::uint8_t>(value);
  return value == 0 || value == 1;
}

inline bool cast(float value, double& out) {
  out = value;
  return true;
}

// Drops the low `drop` bits of a float. Rounds to nearest, ties to even.
inline std::uint32_t round_bits(std::uint32_t bits, unsigned drop) {
  const std::uint32_t half = std::uint32_t{1} << (drop - 1);
  return (bits + (half - 1) + (bits >> drop & 1)) >> drop;
}

inline bool cast(float value, BrainHalf& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    out.bits = static_cast<std::uint16_t>(bits >> 16 |
                                          0x40);  // set the quiet bit: the result must stay a NaN
    return true;
  }
  out.bits = static_cast<std::uint16_t>(round_bits(bits, 16));
  return std::isinf(value) || (out.bits & 0x7fff) != 0x7f80;
}

inline bool cast(float value, Half& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half = 0;
  if (std::isnan(value)) {
    half = 0x7e00 | (magnitude >> 13 & 0x1ff);
  } else if (std::isinf(value)) {
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {             // 2^-14 or more: a normal half
    half = round_bits(magnitude - 0x38000000, 13);  // exponent bias 127 becomes 15
  } else {
    // A subnormal half is a multiple of 2^-24. The product is exact, and rint rounds ties to even.
    half = static_cast<std::uint32_t>(std::rint(std::bit_cast<float>(magnitude) * 0x1p24F));
  }
  out.bits = static_cast<std::uint16_t>(sign | half);
  return std::isinf(value) || half < 0x7c00 || std::isnan(value);
}

}  // namespace tio
