// Permutations as functions of the position. They store nothing, and any position can be computed
// at any time. Many positions are computed at once, because interleaving them is faster.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tio {

// SplitMix64 (Steele, Lea, Flood 2014): derives well-mixed, independent keys from a seed.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A keyed uniform permutation of 0..size-1: a Feistel network over the next power of two, applied
// until the value is below `size` (cycle walking, Black and Rogaway 2002). `size` must be at
// least 1.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  // Replaces each position by its value.
  void apply(std::span<std::uint64_t> positions) const;

  // Does the same where many positions are equal: the value of these is computed once.
  void apply_repeated(std::span<std::uint64_t> positions) const;
  std::uint64_t operator()(std::uint64_t position) const;

  // Returns the position of a value.
  std::uint64_t inverse(std::uint64_t value) const;

 private:
  static constexpr int kRounds = 12;

  template <std::size_t kLanes>
  void cross(std::uint64_t* values) const;
  void cross_all(std::span<std::uint64_t> values) const;
  void apply_chunk(std::span<std::uint64_t> positions) const;
  void apply_distinct(std::span<std::uint64_t> positions) const;

  std::uint64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

// Independent uniform permutations of consecutive blocks of values. The first block is shorter by
// `shift`, which is less than `block`. The last block ends at `size`.
class BlockwisePermutation {
 public:
  BlockwisePermutation(std::uint64_t size, std::uint64_t block, std::uint64_t shift,
                       std::uint64_t key);
  void apply(std::span<std::uint64_t> positions);

 private:
  struct Block {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    Permutation inner{1, 0};
  };

  const Block& block_of(std::uint64_t position);
  void apply_chunk(std::span<std::uint64_t> positions);

  std::uint64_t size_;
  std::uint64_t block_;
  std::uint64_t shift_;
  std::uint64_t key_;
  // The blocks used last, indexed by the remainder of their number, so that neighbors do not evict
  // each other.
  std::array<Block, 4> recent_;
};

// A permutation of 0..size-1 that moves no value by more than `window`. It permutes blocks of half
// a window uniformly, and then blocks shifted by half a block, so that values cross block borders.
// A window of `size` or more results in a uniform permutation.
class WindowPermutation {
 public:
  WindowPermutation(std::uint64_t size, std::uint64_t window, std::uint64_t key);
  void apply(std::span<std::uint64_t> positions);

 private:
  bool uniform_;
  Permutation whole_;
  BlockwisePermutation first_;
  BlockwisePermutation second_;
};

// A permutation of 0..size-1 in blocks of `block` consecutive values, of which the last may be
// shorter. The blocks are permuted uniformly, and then each `window` positions are.
class BlockPermutation {
 public:
  BlockPermutation(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                   std::uint64_t key);
  void apply(std::span<std::uint64_t> positions);

 private:
  void apply_chunk(std::span<std::uint64_t> positions);

  std::uint64_t block_;
  Permutation blocks_;
  // The position after the shorter block, and the number of values that it lacks.
  std::uint64_t short_end_;
  std::uint64_t missing_;
  BlockwisePermutation windows_;
};

}  // namespace tio
