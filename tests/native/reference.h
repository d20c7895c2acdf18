// Slow and simple reference implementations, which share no code with the core.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "example/parser.h"
#include "wire/bytes.h"

namespace tio::test {

// CRC-32C bit by bit, as a polynomial division.
inline std::uint32_t reference_crc32c(Bytes bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

inline std::uint32_t reference_masked_crc(Bytes bytes) {
  const std::uint32_t crc = reference_crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

// Reads a varint of up to 10 bytes at `at`, which moves past it. Returns nothing if it is truncated
// or longer.
inline std::optional<std::uint64_t> reference_varint(Bytes bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 10 && at < bytes.size(); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// ---- 16-bit floats ----

// A float format of one sign bit, `exponent_bits`, and the rest mantissa; 16 bits in all.
class SmallFloat {
 public:
  explicit SmallFloat(int exponent_bits) : mantissa_bits_(15 - exponent_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double whole = std::ldexp(1.0, mantissa_bits_);
    for (std::uint32_t bits = 0; bits <= infinity(); ++bits) {
      const int exponent = static_cast<int>(bits >> mantissa_bits_);
      const double mantissa = bits & ((1U << mantissa_bits_) - 1);
      values_.push_back(std::ldexp(exponent == 0 ? mantissa : whole + mantissa,
                                   std::max(exponent, 1) - bias - mantissa_bits_));
    }
  }

  std::uint32_t infinity() const { return 0x8000U - (1U << mantissa_bits_); }
  std::uint32_t quiet_nan() const { return infinity() | 1U << (mantissa_bits_ - 1); }
  bool is_nan(std::uint16_t bits) const { return (bits & 0x7fffU) > infinity(); }

  // Returns the number with these bits, of a finite value without sign.
  double decode(std::uint32_t bits) const { return values_[bits]; }

  // Returns the nearest number of the format, ties to even, or nothing if a finite value is too
  // large.
  std::optional<std::uint16_t> encode(float value) const {
    const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | quiet_nan());
    if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity());
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return std::nullopt;
    auto bits = static_cast<std::uint32_t>(above - values_.begin());
    if (bits != 0) {
      const double down = magnitude - values_[bits - 1];
      const double up = values_[bits] - magnitude;
      if (down < up || (down == up && bits % 2 == 1)) --bits;
    }
    if (bits == infinity()) return std::nullopt;
    return static_cast<std::uint16_t>(sign | bits);
  }

 private:
  int mantissa_bits_;
  // Indexed by bits, so ascending. The last one is the number that the bits of infinity would be:
  // values nearer to it than to the largest finite number are too large.
  std::vector<double> values_;
};

inline const SmallFloat& float16_format() {
  static const SmallFloat format(5);
  return format;
}

inline const SmallFloat& bfloat16_format() {
  static const SmallFloat format(8);
  return format;
}

// ---- casts to the bytes of an element, or nothing if the value does not fit ----

inline std::optional<std::string> reference_cast(std::int64_t value, Dtype dtype) {
  const std::size_t size = element_bytes(dtype);
  const bool is_unsigned = dtype == Dtype::uint64 || dtype == Dtype::uint32 ||
                           dtype == Dtype::uint16 || dtype == Dtype::uint8;
  const int bits = static_cast<int>(size) * 8 - (is_unsigned ? 0 : 1);
  std::int64_t most =
      bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  std::int64_t least = is_unsigned ? 0 : -most - 1;
  if (dtype == Dtype::boolean) {
    least = 0;
    most = 1;
  }
  if (value < least || value > most) return std::nullopt;
  std::string out(size, '\0');
  std::memcpy(out.data(), &value, size);  // little-endian: the low bytes are the first
  return out;
}

// NaNs become quiet NaNs without payload: compare them with same_element.
inline std::optional<std::string> reference_cast(float value, Dtype dtype) {
  std::string out(element_bytes(dtype), '\0');
  if (dtype == Dtype::float32) {
    std::memcpy(out.data(), &value, sizeof(value));
    return out;
  }
  if (dtype == Dtype::float64) {
    const double wide = value;
    std::memcpy(out.data(), &wide, sizeof(wide));
    return out;
  }
  const SmallFloat& format = dtype == Dtype::float16 ? float16_format() : bfloat16_format();
  const auto bits = format.encode(value);
  if (!bits) return std::nullopt;
  std::memcpy(out.data(), &*bits, sizeof(*bits));
  return out;
}

// Returns whether two elements have equal bytes, or are NaNs of the same sign.
inline bool same_element(const std::string& a, const std::string& b, Dtype dtype) {
  if (a == b) return true;
  if (a.size() != b.size() || a.empty() || (a.back() & 0x80) != (b.back() & 0x80)) return false;
  const auto is_nan = [dtype](const std::string& bytes) {
    if (dtype == Dtype::float64) {
      double value = 0;
      std::memcpy(&value, bytes.data(), sizeof(value));
      return std::isnan(value);
    }
    std::uint16_t bits = 0;
    if (dtype == Dtype::float16 || dtype == Dtype::bfloat16) {
      std::memcpy(&bits, bytes.data(), sizeof(bits));
    }
    return dtype == Dtype::float16    ? float16_format().is_nan(bits)
           : dtype == Dtype::bfloat16 ? bfloat16_format().is_nan(bits)
                                      : false;
  };
  return is_nan(a) && is_nan(b);
}

}  // namespace tio::test
