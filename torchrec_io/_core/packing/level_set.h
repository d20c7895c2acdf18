// A set of small numbers that finds the next one quickly.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tio {

// Numbers in 0..size-1 as bits, and for each 64 bits a bit on the next level that tells whether any
// of them is set. So the next number is found in a few steps, for any size.
class LevelSet {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  // `size` must be at least 1.
  explicit LevelSet(std::size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void insert(std::size_t number) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[number / 64];
      const bool was_empty = word == 0;
      word |= bit(number);
      if (!was_empty) return;
      number /= 64;
    }
  }

  void erase(std::size_t number) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[number / 64];
      word &= ~bit(number);
      if (word != 0) return;
      number /= 64;
    }
  }

  // Returns the least number of the set that is not less than `least`, or kNone.
  std::size_t next(std::size_t least) const {
    std::size_t height = 0;
    while (height < levels_.size()) {
      const std::size_t at = least / 64;
      if (at >= levels_[height].size()) return kNone;
      const std::uint64_t word = levels_[height][at] & ~(bit(least) - 1);
      if (word != 0) return descend(height, at * 64 + std::countr_zero(word));
      least = at + 1;
      ++height;
    }
    return kNone;
  }

 private:
  static constexpr std::uint64_t bit(std::size_t number) {
    return std::uint64_t{1} << (number % 64);
  }

  std::size_t descend(std::size_t height, std::size_t number) const {
    while (height > 0) {
      --height;
      number = number * 64 + std::countr_zero(levels_[height][number]);
    }
    return number;
  }

  std::vector<std::vector<std::uint64_t>> levels_;  // the numbers themselves first
};

}  // namespace tio
