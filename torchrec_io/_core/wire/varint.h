// Lists of varints, as packed int64 lists store them.
#pragma once

#include <cstdint>

#include "wire/bytes.h"

namespace tio {

// Instruction sets that decode varints. Later ones are faster.
enum class VarintPath { portable, avx2, avx512 };

// Returns the fastest path that this processor supports.
VarintPath best_varint_path();

// Counts the values of a packed list. Returns false if the last one is truncated. Varints longer
// than 10 bytes are only detected when they are decoded.
bool count_varints(Bytes packed, std::uint64_t& count);
bool count_varints(Bytes packed, std::uint64_t& count, VarintPath path);

// Decodes a packed list in pieces.
class VarintReader {
 public:
  // The processor must support `path`. It is an argument so that one test covers every path.
  explicit VarintReader(Bytes packed, VarintPath path = best_varint_path())
      : packed_(packed), path_(path) {}

  // Decodes up to `limit` values into `out` and returns their number. May overwrite the rest of
  // `out`, but never anything from out[limit] on.
  std::size_t read(std::int64_t* out, std::size_t limit);

  // Skips up to `limit` values, which are checked as those that are read, and returns their number.
  std::size_t skip(std::size_t limit);

  bool done() const { return at_ == packed_.size(); }
  // Whether a varint was truncated or longer than 10 bytes.
  bool bad() const { return bad_; }

 private:
  Bytes packed_;
  std::size_t at_ = 0;
  VarintPath path_;
  bool bad_ = false;
};

// Counts the varints in the low `size` bytes of `word`, 1 to 8. Returns false if the last one is
// truncated.
inline bool count_word(std::uint64_t word, unsigned size, std::uint64_t& count) {
  std::uint64_t ends = ~word >> 7 & 0x0101010101010101U;
  if (size < 8) ends &= (std::uint64_t{1} << (size * 8)) - 1;
  count = ends * 0x0101010101010101U >> 56;
  return (ends >> (size * 8 - 8)) != 0;
}

// Returns the value of the varint in the low `size` bytes of `word`, 1 to 8.
inline std::int64_t squeeze(std::uint64_t word, unsigned size) {
  // Close the one-bit gaps between the groups of seven: pairs, fours, eights.
  std::uint64_t x = word & (~std::uint64_t{0} >> (64 - size * 8)) & 0x7f7f7f7f7f7f7f7fU;
  x = (x & 0x007f007f007f007fU) | (x & 0x7f007f007f007f00U) >> 1;
  x = (x & 0x00003fff00003fffU) | (x & 0x3fff00003fff0000U) >> 2;
  return static_cast<std::int64_t>((x & 0x000000000fffffffU) | (x & 0x0fffffff00000000U) >> 4);
}

// Decodes the varint in the low `size` bytes of `word`, 1 to 8. Returns false unless it fills them
// exactly.
inline bool decode_word(std::uint64_t word, unsigned size, std::int64_t& out) {
  constexpr std::uint64_t kContinue = 0x8080808080808080U;
  const unsigned last_bit = size * 8 - 1;
  if (size == 1) {
    out = static_cast<std::int64_t>(word & 0x7f);
    return (word & 0x80) == 0;
  }
  const std::uint64_t ends = ~word & kContinue;
  if (ends == 0 || static_cast<unsigned>(__builtin_ctzll(ends)) != last_bit) return false;
  out = squeeze(word, size);
  return true;
}

}  // namespace tio
