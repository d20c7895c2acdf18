// Random numbers of NumPy's Generator(Philox(key)), bit by bit: Philox4x64-10 (Salmon, Moraes,
// Dror, Shaw 2011) and the ways in which NumPy makes numbers from its bits.
#pragma once

#include <array>
#include <cstdint>

namespace tio {

class Philox {
 public:
  // The key as two little-endian halves.
  Philox(std::uint64_t low, std::uint64_t high) : key_{low, high} {}

  // Generator.random(): in [0, 1).
  double random() { return static_cast<double>(next64() >> 11) * 0x1p-53; }

  // Generator.uniform(low, high).
  double uniform(double low, double high) {
    const double range = high - low;
    return low + range * random();
  }

  // Generator.integers(count): in [0, count), for 0 < count <= 2^32.
  std::uint64_t integers(std::uint64_t count) {
    if (count == 1) return 0;  // uses no bits
    if (count > UINT32_MAX) return next32();
    // Lemire (2019): Fast Random Integer Generation in an Interval.
    const auto bound = static_cast<std::uint32_t>(count);
    std::uint64_t product = std::uint64_t{next32()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (UINT32_MAX - (bound - 1)) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) {
        product = std::uint64_t{next32()} * bound;
      }
    }
    return product >> 32;
  }

 private:
  static constexpr int kRounds = 10;
  using Block = std::array<std::uint64_t, 4>;
  __extension__ using Wide = unsigned __int128;

  static std::uint64_t multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& high) {
    const Wide product = static_cast<Wide>(a) * b;
    high = static_cast<std::uint64_t>(product >> 64);
    return static_cast<std::uint64_t>(product);
  }

  std::uint64_t next64() {
    if (used_ == block_.size()) {
      ++counter_;
      block_ = encrypt(counter_);
      used_ = 0;
    }
    return block_[used_++];
  }

  // The upper half of 64 bits is kept for the next call.
  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t bits = next64();
    has_half_ = true;
    half_ = static_cast<std::uint32_t>(bits >> 32);
    return static_cast<std::uint32_t>(bits);
  }

  Block encrypt(std::uint64_t counter) const {
    Block x = {counter, 0, 0, 0};
    std::uint64_t low = key_[0];
    std::uint64_t high = key_[1];
    for (int round = 0; round < kRounds; ++round) {
      std::uint64_t high0 = 0;
      std::uint64_t high2 = 0;
      const std::uint64_t low0 = multiply(0xD2E7470EE14C6C93U, x[0], high0);
      const std::uint64_t low2 = multiply(0xCA5A826395121157U, x[2], high2);
      x = {high2 ^ x[1] ^ low, low2, high0 ^ x[3] ^ high, low0};
      low += 0x9E3779B97F4A7C15U;
      high += 0xBB67AE8584CAA73BU;
    }
    return x;
  }

  std::array<std::uint64_t, 2> key_;
  std::uint64_t counter_ = 0;
  Block block_{};
  std::size_t used_ = 4;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

}  // namespace tio
