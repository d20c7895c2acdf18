#include "order/selection.h"

#include <algorithm>
#include <array>

namespace tio {
namespace {

constexpr std::size_t kBlockWords = 8;
constexpr std::size_t kTogether = 16;                 // positions searched at the same time
constexpr std::uint64_t kOnes = 0x0101010101010101U;  // a 1 in every byte

// Counts the set bits of each byte. std::popcount would be a function call if the target processor
// may lack the instruction.
constexpr std::uint64_t count_bytes(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555U;
  word = (word & 0x3333333333333333U) + (word >> 2 & 0x3333333333333333U);
  return (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fU;
}

constexpr std::uint64_t count_word(std::uint64_t word) { return count_bytes(word) * kOnes >> 56; }

// Counts the bytes of `sums` that are at most `limit`. All are below 128. No byte borrows from the
// next, because each gets a high bit first.
constexpr std::uint64_t count_up_to(std::uint64_t sums, std::uint64_t limit) {
  return (((limit * kOnes | kOnes << 7) - sums) >> 7 & kOnes) * kOnes >> 56;
}

// Returns the position of the set bit with `before` set bits below it. The word has more than that.
// Finds first its byte, then the bit in the byte, without branches.
constexpr std::uint64_t select_in_word(std::uint64_t word, std::uint64_t before) {
  const std::uint64_t sums = count_bytes(word) * kOnes;  // byte i: bits set in bytes 0..i
  const std::uint64_t shift = count_up_to(sums, before) * 8;
  before -= sums << 8 >> shift & 0xff;
  // Byte i has bit i of the byte.
  const std::uint64_t apart = (word >> shift & 0xff) * kOnes & 0x8040201008040201U;
  const std::uint64_t bits = (apart + 0x7f * kOnes) >> 7 & kOnes;
  return shift + count_up_to(bits * kOnes, before);
}

std::size_t word_blocks(std::size_t words) { return (words + kBlockWords - 1) / kBlockWords; }

}  // namespace

std::vector<std::int64_t> count_bits(std::span<const std::uint64_t> words) {
  std::vector<std::int64_t> counts;
  counts.reserve(word_blocks(words.size()) + 1);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i % kBlockWords == 0) counts.push_back(static_cast<std::int64_t>(count));
    count += count_word(words[i]);
  }
  counts.push_back(static_cast<std::int64_t>(count));
  return counts;
}

std::optional<BitSet> BitSet::open(std::span<const std::uint64_t> words,
                                   std::span<const std::int64_t> counts) {
  if (counts.size() != word_blocks(words.size()) + 1) return std::nullopt;
  return BitSet(words, counts);
}

bool BitSet::select(std::span<const std::int64_t> positions,
                    std::span<std::int64_t> numbers) const {
  for (std::size_t done = 0; done < positions.size();) {
    // Several at a time, so that the processor waits for the memory of all of them together. And
    // without branches, because which half has a position cannot be predicted.
    std::array<std::size_t, kTogether> blocks{};
    const auto group = positions.subspan(done, std::min(kTogether, positions.size() - done));
    for (const std::int64_t position : group) {
      if (position < 0 || position >= counts_.back()) return false;
    }
    // Each block is the last one that begins at or before the position.
    for (std::size_t left = counts_.size() - 1; left > 1; left -= left / 2) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        const std::size_t middle = blocks[i] + left / 2;
        blocks[i] = counts_[middle] <= group[i] ? middle : blocks[i];
      }
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      __builtin_prefetch(words_.data() + blocks[i] * kBlockWords);
    }
    for (std::size_t i = 0; i < group.size(); ++i, ++done) {
      const auto position = static_cast<std::uint64_t>(group[i]);
      if (!select_in_block(blocks[i], position, numbers[done])) return false;
    }
  }
  return true;
}

bool BitSet::select_in_block(std::size_t block, std::uint64_t position,
                             std::int64_t& number) const {
  std::uint64_t before = position - static_cast<std::uint64_t>(counts_[block]);
  const std::size_t begin = block * kBlockWords;
  const std::size_t end = std::min(begin + kBlockWords, words_.size());
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t count = count_word(words_[i]);
    if (before < count) {
      number = static_cast<std::int64_t>(i * 64 + select_in_word(words_[i], before));
      return true;
    }
    before -= count;
  }
  return false;
}

bool BitSet::count_below(std::span<const std::int64_t> numbers,
                         std::span<std::int64_t> below) const {
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const auto number = static_cast<std::uint64_t>(numbers[k]);
    if (number > words_.size() * 64) return false;
    const std::size_t word = number / 64;
    const std::size_t block = word / kBlockWords;
    auto count = static_cast<std::uint64_t>(counts_[block]);
    for (std::size_t i = block * kBlockWords; i < word; ++i) count += count_word(words_[i]);
    if (number % 64 != 0) {
      count += count_word(words_[word] & ((std::uint64_t{1} << number % 64) - 1));
    }
    below[k] = static_cast<std::int64_t>(count);
  }
  return true;
}

}  // namespace tio
