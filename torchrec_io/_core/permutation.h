// Orders as functions of the position: nothing is stored, any position can be asked for at any
// time.
#pragma once

#include <array>
#include <cstdint>

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
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  static constexpr int kRounds = 12;

  std::uint64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

// A permutation of 0..size-1 that moves no value by more than `window`: uniform within blocks of
// half a window, then again within blocks shifted by half of one, so that values cross the block
// borders. A window of `size` or more is one uniform permutation.
class WindowPermutation {
 public:
  WindowPermutation(std::uint64_t size, std::uint64_t window, std::uint64_t key);
  std::uint64_t operator()(std::uint64_t position);

 private:
  // One of the two layers: blocks of `block` values, the first one cut short by `shift`.
  class Layer {
   public:
    Layer(std::uint64_t size, std::uint64_t block, std::uint64_t shift, std::uint64_t key);
    std::uint64_t operator()(std::uint64_t position);

   private:
    void enter(std::uint64_t number);

    std::uint64_t size_;
    std::uint64_t block_;
    std::uint64_t shift_;
    std::uint64_t key_;
    // The block that was asked for last: neighbours mostly share it.
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    Permutation inner_{1, 0};
  };

  bool uniform_;
  Permutation whole_;
  Layer first_;
  Layer second_;
};

}  // namespace tio
