#include "order/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tio {
namespace {

// Feistel networks over fewer bits are visibly not uniform, and cycle walking is cheap at this
// size.
constexpr int kMinBits = 8;
// The number of values that go through a network together. Each round of a value waits for the one
// before it, and the processor works on the other values meanwhile.
constexpr std::size_t kMany = 16;
constexpr std::size_t kFew = 4;
// The number of positions computed at once, with temporary arrays on the stack.
constexpr std::size_t kAtOnce = 256;

std::uint64_t round_function(std::uint64_t half, std::uint64_t key, int bits) {
  std::uint64_t x = (half ^ key) * 0xff51afd7ed558ccdU;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53U;
  return x >> (64 - bits);
}

template <class Apply>
void by_chunks(std::span<std::uint64_t> positions, Apply apply) {
  for (; positions.size() > kAtOnce; positions = positions.subspan(kAtOnce)) {
    apply(positions.first(kAtOnce));
  }
  apply(positions);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  const int bits = std::max(kMinBits, static_cast<int>(std::bit_width(size - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (auto& round_key : keys_) round_key = key = mix(key);
}

// Applies the network once.
template <std::size_t kLanes>
void Permutation::cross(std::uint64_t* values) const {
  const std::uint64_t right_mask = (std::uint64_t{1} << right_bits_) - 1;
  std::array<std::uint64_t, kLanes> left;
  std::array<std::uint64_t, kLanes> right;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    left[lane] = values[lane] >> right_bits_;
    right[lane] = values[lane] & right_mask;
  }
  for (int round = 0; round < kRounds; round += 2) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      left[lane] ^= round_function(right[lane], keys_[round], left_bits_);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      right[lane] ^= round_function(left[lane], keys_[round + 1], right_bits_);
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    values[lane] = left[lane] << right_bits_ | right[lane];
  }
}

void Permutation::cross_all(std::span<std::uint64_t> values) const {
  for (; values.size() >= kMany; values = values.subspan(kMany)) cross<kMany>(values.data());
  for (; values.size() >= kFew; values = values.subspan(kFew)) cross<kFew>(values.data());
  for (std::uint64_t& value : values) cross<1>(&value);
}

void Permutation::apply_chunk(std::span<std::uint64_t> positions) const {
  // Values that are still outside of the range are packed together for the next step.
  std::array<std::uint64_t, kAtOnce> walking;
  std::array<std::size_t, kAtOnce> indices;
  std::size_t count = positions.size();
  std::copy(positions.begin(), positions.end(), walking.begin());
  std::iota(indices.begin(), indices.begin() + count, std::size_t{0});
  while (count > 0) {
    cross_all(std::span(walking).first(count));
    std::size_t outside = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = walking[i];
      positions[indices[i]] = value;
      walking[outside] = value;
      indices[outside] = indices[i];
      outside += value >= size_;
    }
    count = outside;
  }
}

void Permutation::apply(std::span<std::uint64_t> positions) const {
  by_chunks(positions, [this](auto chunk) { apply_chunk(chunk); });
}

void Permutation::apply_distinct(std::span<std::uint64_t> positions) const {
  // The last position of each remainder. Others with the same remainder are computed again.
  std::array<std::uint16_t, kAtOnce> recent;
  std::array<std::uint64_t, kAtOnce> distinct;
  std::array<std::uint16_t, kAtOnce> indices;
  std::size_t count = 0;
  recent.fill(0);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::uint16_t& index = recent[positions[i] % kAtOnce];
    if (index >= count || distinct[index] != positions[i]) {
      index = static_cast<std::uint16_t>(count);
      distinct[count++] = positions[i];
    }
    indices[i] = index;
  }
  apply_chunk(std::span(distinct).first(count));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = distinct[indices[i]];
}

void Permutation::apply_repeated(std::span<std::uint64_t> positions) const {
  by_chunks(positions, [this](auto chunk) { apply_distinct(chunk); });
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  do {
    cross<1>(&position);
  } while (position >= size_);
  return position;
}

std::uint64_t Permutation::inverse(std::uint64_t value) const {
  do {
    std::uint64_t left = value >> right_bits_;
    std::uint64_t right = value & ((std::uint64_t{1} << right_bits_) - 1);
    for (int round = kRounds; round > 0; round -= 2) {
      right ^= round_function(left, keys_[round - 1], right_bits_);
      left ^= round_function(right, keys_[round - 2], left_bits_);
    }
    value = left << right_bits_ | right;
  } while (value >= size_);
  return value;
}

BlockwisePermutation::BlockwisePermutation(std::uint64_t size, std::uint64_t block,
                                           std::uint64_t shift, std::uint64_t key)
    : size_(size), block_(block), shift_(shift), key_(key) {}

const BlockwisePermutation::Block& BlockwisePermutation::block_of(std::uint64_t position) {
  const std::uint64_t number = (position + shift_) / block_;
  Block& block = recent_[number % recent_.size()];
  if (position - block.begin >= block.size) {
    block.begin = number == 0 ? 0 : number * block_ - shift_;
    block.size = std::min(size_, (number + 1) * block_ - shift_) - block.begin;
    block.inner = Permutation(block.size, mix(key_ ^ mix(number)));
  }
  return block;
}

void BlockwisePermutation::apply_chunk(std::span<std::uint64_t> positions) {
  std::array<std::uint64_t, kAtOnce> inside;
  std::array<std::size_t, kAtOnce> indices;
  std::array<std::size_t, kAtOnce> waiting;
  std::size_t count = positions.size();
  std::iota(waiting.begin(), waiting.begin() + count, std::size_t{0});
  while (count > 0) {
    // All positions in the block of the first one are computed together. The others wait.
    const Block& block = block_of(positions[waiting[0]]);
    std::size_t together = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = waiting[i];
      const std::uint64_t value = positions[at] - block.begin;
      inside[together] = value;
      indices[together] = at;
      waiting[others] = at;
      together += value < block.size;
      others += value >= block.size;
    }
    block.inner.apply(std::span(inside).first(together));
    for (std::size_t i = 0; i < together; ++i) positions[indices[i]] = block.begin + inside[i];
    count = others;
  }
}

void BlockwisePermutation::apply(std::span<std::uint64_t> positions) {
  by_chunks(positions, [this](auto chunk) { apply_chunk(chunk); });
}

WindowPermutation::WindowPermutation(std::uint64_t size, std::uint64_t window, std::uint64_t key)
    : uniform_(window >= size),
      whole_(size, key),
      // Each layer moves a value by less than a block, so by at most window / 2.
      first_(size, window / 2 + 1, 0, mix(key)),
      second_(size, window / 2 + 1, (window / 2 + 1) / 2, mix(key + 1)) {}

void WindowPermutation::apply(std::span<std::uint64_t> positions) {
  if (uniform_) return whole_.apply(positions);
  second_.apply(positions);
  first_.apply(positions);
}

BlockPermutation::BlockPermutation(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                                   std::uint64_t key)
    : block_(std::min(block, size)),
      blocks_((size - 1) / block_ + 1, mix(key)),
      windows_(size, std::min(window, size), 0, mix(key + 1)) {
  const std::uint64_t last = (size - 1) / block_;
  missing_ = (last + 1) * block_ - size;
  short_end_ = (blocks_.inverse(last) + 1) * block_ - missing_;
}

void BlockPermutation::apply_chunk(std::span<std::uint64_t> positions) {
  std::array<std::uint64_t, kAtOnce> blocks;
  std::array<std::uint64_t, kAtOnce> offsets;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    // Computed as if the short block were as long as the others.
    const std::uint64_t position = positions[i] + (positions[i] >= short_end_ ? missing_ : 0);
    blocks[i] = position / block_;
    offsets[i] = position % block_;
  }
  blocks_.apply_repeated(std::span(blocks).first(positions.size()));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = blocks[i] * block_ + offsets[i];
  }
}

void BlockPermutation::apply(std::span<std::uint64_t> positions) {
  windows_.apply(positions);
  by_chunks(positions, [this](auto chunk) { apply_chunk(chunk); });
}

}  // namespace tio
