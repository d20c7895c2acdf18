#include "wire/crc32c_ranges.h"

#include <array>

#include "wire/crc32c.h"

namespace tio {
namespace {

constexpr std::size_t kStepBytes = 1 << 12;
constexpr std::uint32_t kPolynomial = 0x82f63b78U;
constexpr std::uint32_t kOne = 1U << 31;  // the lowest power is the highest bit

// Returns the product of two polynomials, modulo that of CRC-32C.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// Powers of x: that of 8 bits times 2^k, for each k.
constexpr std::array<std::uint32_t, 64> make_powers() {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = kOne >> 8;
  for (std::size_t k = 1; k < powers.size(); ++k) {
    powers[k] = multiply(powers[k - 1], powers[k - 1]);
  }
  return powers;
}

constexpr auto kPowers = make_powers();

}  // namespace

std::uint32_t shift_crc(std::uint32_t crc, std::uint64_t count) {
  for (std::size_t k = 0; count != 0; ++k, count >>= 1) {
    if ((count & 1) != 0) crc = multiply(kPowers[k], crc);
  }
  return crc;
}

std::uint32_t CrcRanges::crc(std::size_t begin, std::size_t end) {
  if (end - begin <= 2 * kStepBytes) return crc32c(buffer_.subspan(begin, end - begin));
  return crc_of_first(end) ^ shift_crc(crc_of_first(begin), end - begin);
}

std::uint32_t CrcRanges::crc_of_first(std::size_t count) {
  const std::size_t step = count / kStepBytes;
  while (starts_.size() <= step) {
    starts_.push_back(
        crc32c(buffer_.subspan((starts_.size() - 1) * kStepBytes, kStepBytes), starts_.back()));
  }
  return crc32c(buffer_.subspan(step * kStepBytes, count - step * kStepBytes), starts_[step]);
}

}  // namespace tio
