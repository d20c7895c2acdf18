// Orders as functions of the position: nothing is stored, any position can be asked for at any
// time. Many positions are asked for at once, for they are worked on side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tio {

// SplitMix64 (Steele, Lea, Flood 2014): turns a seed into well-mixed, independent keys.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A keyed permutation of 0..size-1: a Feistel network over the next power of two, walked until the
// value falls below `size` (cycle walking, Black and Rogaway 2002). size must be at least 1.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  // Puts the value of each position in its place.
  void apply(std::span<std::uint64_t> positions) const;
  std::uint64_t operator()(std::uint64_t position) const;

  // The position that has a value.
  std::uint64_t inverse(std::uint64_t value) const;

 private:
  static constexpr int kRounds = 12;

  template <std::size_t kLanes>
  void cross(std::uint64_t* values) const;
  void cross_all(std::span<std::uint64_t> values) const;
  void apply_chunk(std::span<std::uint64_t> positions) const;

  std::uint64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

// Uniform permutations of blocks of values, each within its block. The first block is cut short by
// `shift`, which is less than `block`; the last one ends at `size`.
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
  // Blocks asked for lately, by their numbers' remainders: neighbours do not drive each other out.
  std::array<Block, 4> recent_;
};

// A permutation of 0..size-1 that moves no value by more than `window`: uniform within blocks of
// half a window, then again within blocks shifted by half of one, so that values cross the block
// borders. A window of `size` or more is one uniform permutation.
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

// A permutation of 0..size-1 by blocks of `block` consecutive values (the last one may be shorter):
// the blocks come in a uniform order, and then each `window` positions are permuted uniformly.
class BlockPermutation {
 public:
  BlockPermutation(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                   std::uint64_t key);
  void apply(std::span<std::uint64_t> positions);

 private:
  void apply_chunk(std::span<std::uint64_t> positions);

  std::uint64_t block_;
  Permutation blocks_;
  // The position behind the shorter block, and how much it is shorter.
  std::uint64_t short_end_;
  std::uint64_t missing_;
  BlockwisePermutation windows_;
};

}  // namespace tio
