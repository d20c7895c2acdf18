#include "permutation.h"

#include <algorithm>
#include <bit>

namespace tio {
namespace {

// Feistel networks over fewer bits than this are visibly not uniform; walking costs little there.
constexpr int kFewestBits = 8;

std::uint64_t round_function(std::uint64_t half, std::uint64_t key, int bits) {
  std::uint64_t x = (half ^ key) * 0xff51afd7ed558ccdU;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53U;
  return x >> (64 - bits);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  const int bits = std::max(kFewestBits, static_cast<int>(std::bit_width(size - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (auto& round_key : keys_) round_key = key = mix(key);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  do {
    std::uint64_t left = position >> right_bits_;
    std::uint64_t right = position & ((std::uint64_t{1} << right_bits_) - 1);
    for (int round = 0; round < kRounds; round += 2) {
      left ^= round_function(right, keys_[round], left_bits_);
      right ^= round_function(left, keys_[round + 1], right_bits_);
    }
    position = left << right_bits_ | right;
  } while (position >= size_);
  return position;
}

WindowPermutation::Layer::Layer(std::uint64_t size, std::uint64_t block, std::uint64_t shift,
                                std::uint64_t key)
    : size_(size), block_(block), shift_(shift), key_(key) {}

void WindowPermutation::Layer::enter(std::uint64_t number) {
  begin_ = number == 0 ? 0 : number * block_ - shift_;
  end_ = std::min(size_, (number + 1) * block_ - shift_);
  inner_ = Permutation(end_ - begin_, mix(key_ ^ mix(number)));
}

std::uint64_t WindowPermutation::Layer::operator()(std::uint64_t position) {
  if (position < begin_ || position >= end_) enter((position + shift_) / block_);
  return begin_ + inner_(position - begin_);
}

WindowPermutation::WindowPermutation(std::uint64_t size, std::uint64_t window, std::uint64_t key)
    : uniform_(window >= size),
      whole_(size, key),
      // Each layer moves a value by less than a block, that is by window / 2 at most.
      first_(size, window / 2 + 1, 0, mix(key)),
      second_(size, window / 2 + 1, (window / 2 + 1) / 2, mix(key + 1)) {}

std::uint64_t WindowPermutation::operator()(std::uint64_t position) {
  if (uniform_) return whole_(position);
  return first_(second_(position));
}

}  // namespace tio
