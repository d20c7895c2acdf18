#include "order/selection.h"

#include <algorithm>
#include <array>

namespace tio {
namespace {

constexpr std::size_t kBlockWords = 8;
constexpr std::size_t kTogether = 16;                 // places looked for at the same time
constexpr std::uint64_t kOnes = 0x0101010101010101U;  // a 1 in every byte

// Bits that are set in each byte. Written out: std::popcount is a function call where the processor
// is not known to have an instruction for it.
constexpr std::uint64_t count_bytes(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555U;
  word = (word & 0x3333333333333333U) + (word >> 2 & 0x3333333333333333U);
  return (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fU;
}

constexpr std::uint64_t count_word(std::uint64_t word) { return count_bytes(word) * kOnes >> 56; }

// How many of the bytes of `sums` are `most` or less; all are below 128. No byte borrows from the
// next: each gets a high bit first.
constexpr std::uint64_t count_up_to(std::uint64_t sums, std::uint64_t most) {
  return (((most * kOnes | kOnes << 7) - sums) >> 7 & kOnes) * kOnes >> 56;
}

// The place of the set bit that has `before` set bits below it; the word has more than that.
// Without a branch: first the byte it is in, then the bit of the byte.
constexpr std::uint64_t select_in_word(std::uint64_t word, std::uint64_t before) {
  const std::uint64_t sums = count_bytes(word) * kOnes;  // byte i: bits set in bytes 0..i
  const std::uint64_t shift = count_up_to(sums, before) * 8;
  before -= sums << 8 >> shift & 0xff;
  // Byte i of this: whether bit i is set.
  const std::uint64_t apart = (word >> shift & 0xff) * kOnes & 0x8040201008040201U;
  const std::uint64_t bits = (apart + 0x7f * kOnes) >> 7 & kOnes;
  return shift + count_up_to(bits * kOnes, before);
}

std::size_t blocks_of(std::size_t words) { return (words + kBlockWords - 1) / kBlockWords; }

}  // namespace

std::vector<std::int64_t> count_bits(std::span<const std::uint64_t> words) {
  std::vector<std::int64_t> counts;
  counts.reserve(blocks_of(words.size()) + 1);
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
  if (counts.size() != blocks_of(words.size()) + 1) return std::nullopt;
  return BitSet(words, counts);
}

bool BitSet::select(std::span<const std::int64_t> places, std::span<std::int64_t> numbers) const {
  for (std::size_t done = 0; done < places.size();) {
    // Several at a time, so that the processor waits for the memory of all of them at once; and
    // without a branch, for which half a place lies in cannot be foretold.
    std::array<std::size_t, kTogether> blocks{};
    const auto group = places.subspan(done, std::min(kTogether, places.size() - done));
    for (const std::int64_t place : group) {
      if (place < 0 || place >= counts_.back()) return false;
    }
    // Each block is the last that begins at the place or before it.
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
      const auto place = static_cast<std::uint64_t>(group[i]);
      if (!select_in_block(blocks[i], place, numbers[done])) return false;
    }
  }
  return true;
}

bool BitSet::select_in_block(std::size_t block, std::uint64_t place, std::int64_t& number) const {
  std::uint64_t before = place - static_cast<std::uint64_t>(counts_[block]);
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

bool BitSet::rank(std::span<const std::int64_t> numbers, std::span<std::int64_t> places) const {
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
    places[k] = static_cast<std::int64_t>(count);
  }
  return true;
}

}  // namespace tio
