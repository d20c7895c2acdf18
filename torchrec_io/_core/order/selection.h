// Sets of numbers as bits: bit i % 64 of word i / 64 is set if number i is in the set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tio {

// Counts the numbers of the set before each block of 512, and last, all of them.
std::vector<std::int64_t> count_bits(std::span<const std::uint64_t> words);

class BitSet {
 public:
  // Returns nothing unless there are as many counts as the words require.
  static std::optional<BitSet> open(std::span<const std::uint64_t> words,
                                    std::span<const std::int64_t> counts);

  // Finds the number at each position of the set, in ascending order. Returns false if the set has
  // no such position, or if the counts do not match the words. Both spans have the same size.
  bool select(std::span<const std::int64_t> positions, std::span<std::int64_t> numbers) const;

  // Counts for each number, in the set or not, the smaller ones in the set. Returns false if a
  // number lies past the words. Both spans have the same size.
  bool count_below(std::span<const std::int64_t> numbers, std::span<std::int64_t> below) const;

 private:
  BitSet(std::span<const std::uint64_t> words, std::span<const std::int64_t> counts)
      : words_(words), counts_(counts) {}

  bool select_in_block(std::size_t block, std::uint64_t position, std::int64_t& number) const;

  std::span<const std::uint64_t> words_;
  std::span<const std::int64_t> counts_;
};

}  // namespace tio
