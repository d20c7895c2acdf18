// Sets of numbers, one bit each: which number comes at a place among them, and how many come before
// a number. Bit i % 64 of word i / 64 says whether number i is in the set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tio {

// How many numbers of the set lie before each block of 512, and how many there are in all at last.
std::vector<std::int64_t> count_bits(std::span<const std::uint64_t> words);

class BitSet {
 public:
  // Nothing unless the counts are as many as the words have.
  static std::optional<BitSet> open(std::span<const std::uint64_t> words,
                                    std::span<const std::int64_t> counts);

  // For each place the number that has so many smaller ones in the set. False if there is none for
  // one of them, or if the counts are not those of the words. `numbers` is of the size of `places`.
  bool select(std::span<const std::int64_t> places, std::span<std::int64_t> numbers) const;

  // For each number, of the set or not, how many of the set are smaller. False if one lies behind
  // the words. `places` is of the size of `numbers`.
  bool rank(std::span<const std::int64_t> numbers, std::span<std::int64_t> places) const;

 private:
  BitSet(std::span<const std::uint64_t> words, std::span<const std::int64_t> counts)
      : words_(words), counts_(counts) {}

  bool select_in_block(std::size_t block, std::uint64_t place, std::int64_t& number) const;

  std::span<const std::uint64_t> words_;
  std::span<const std::int64_t> counts_;
};

}  // namespace tio
