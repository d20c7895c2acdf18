#include "deflate/block_search.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tio {
namespace {

constexpr std::uint64_t kHeaderBits = 17;     // of a block with codes of its own
constexpr std::uint64_t kCodeLengthBits = 3;  // of each symbol of the code of lengths
constexpr std::uint64_t kMostLengthSymbols = 19;
constexpr std::size_t kMostSymbols = 286 + 30;
// Positions in a word whose tested bits all lie in it.
constexpr std::uint64_t kPositionsInWord = 47;

// The order in which the lengths of the code of lengths are stored.
constexpr std::array<std::uint8_t, kMostLengthSymbols> kLengthOrder = {
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// Returns the 64 bits at a bit position. Bits past the end read as zero.
std::uint64_t bits_at(Bytes data, std::uint64_t bit) {
  const std::size_t at = bit / 8;
  if (at >= data.size()) return 0;
  const unsigned shift = bit % 8;
  const bool has_next = at + 8 < data.size();
  const std::uint64_t low =
      (has_next ? load<std::uint64_t>(data, at) : load_word(data, at)) >> shift;
  if (shift == 0 || !has_next) return low;
  return low | std::to_integer<std::uint64_t>(data[at + 8]) << (64 - shift);
}

// The parts of 2^-7 that four codes with lengths of 3 bits take of all codes, by these 12 bits.
constexpr auto kShares = [] {
  std::array<std::uint16_t, 1 << 12> shares{};
  for (std::size_t bits = 0; bits < shares.size(); ++bits) {
    for (unsigned shift = 0; shift < 12; shift += 3) {
      const unsigned length = bits >> shift & 7;
      if (length != 0) shares[bits] = static_cast<std::uint16_t>(shares[bits] + (128 >> length));
    }
  }
  return shares;
}();

// Bits of a word where a block that is not the last, with codes of its own and valid numbers of
// symbols, can start.
std::uint64_t possible_starts(std::uint64_t w) {
  const std::uint64_t is_kind = ~w & ~(w >> 1) & (w >> 2);
  const std::uint64_t too_many_literals = w >> 4 & w >> 5 & w >> 6 & w >> 7;
  const std::uint64_t too_many_distances = w >> 9 & w >> 10 & w >> 11 & w >> 12;
  return is_kind & ~too_many_literals & ~too_many_distances;
}

// Whether the code of lengths of a header is complete, which starts at a bit of 128 bits.
bool is_complete(std::uint64_t low, std::uint64_t high, unsigned start) {
  const unsigned symbols = (low >> start >> 13 & 15) + 4;
  const unsigned from = start + kHeaderBits;
  const std::uint64_t lengths = from < 64 ? low >> from | high << (64 - from) : high >> (from - 64);
  const std::uint64_t bits = lengths & ((std::uint64_t{1} << symbols * kCodeLengthBits) - 1);
  return kShares[bits & 0xfff] + kShares[bits >> 12 & 0xfff] + kShares[bits >> 24 & 0xfff] +
             kShares[bits >> 36 & 0xfff] + kShares[bits >> 48] ==
         128;
}

// The code of lengths of a header: the symbol and its length for each 7 bits.
struct LengthCode {
  std::array<std::uint8_t, 128> symbols{};
  std::array<std::uint8_t, 128> sizes{};

  LengthCode(std::uint64_t bits, unsigned count) {
    std::array<unsigned, kMostLengthSymbols> lengths{};
    for (unsigned i = 0; i < count; ++i) {
      lengths[kLengthOrder[i]] = bits >> i * kCodeLengthBits & 7;
    }
    unsigned code = 0;
    for (unsigned length = 1; length <= 7; ++length, code <<= 1) {
      for (unsigned symbol = 0; symbol < lengths.size(); ++symbol) {
        if (lengths[symbol] == length) add(code++, length, symbol);
      }
    }
  }

  // Codes are stored from their highest bit on.
  void add(unsigned code, unsigned length, unsigned symbol) {
    unsigned reversed = 0;
    for (unsigned i = 0; i < length; ++i) reversed |= (code >> i & 1) << (length - 1 - i);
    for (unsigned at = reversed; at < 128; at += 1U << length) {
      symbols[at] = static_cast<std::uint8_t>(symbol);
      sizes[at] = static_cast<std::uint8_t>(length);
    }
  }
};

// Reads the lengths of the codes of literals and distances. Returns false if they are invalid, or
// extend past the data.
bool read_lengths(Bytes data, std::uint64_t bit, const LengthCode& code,
                  std::span<std::uint8_t> lengths) {
  std::size_t done = 0;
  while (done < lengths.size()) {
    const std::uint64_t w = bits_at(data, bit);
    const unsigned symbol = code.symbols[w & 127];
    const unsigned size = code.sizes[w & 127];
    std::size_t repeats = 1;
    std::uint8_t value = 0;
    unsigned extra = 0;
    if (symbol < 16) {
      value = static_cast<std::uint8_t>(symbol);
    } else if (symbol == 16) {
      if (done == 0) return false;
      value = lengths[done - 1];
      extra = 2;
      repeats = 3 + (w >> size & 3);
    } else {
      extra = symbol == 17 ? 3 : 7;
      repeats = symbol == 17 ? 3 + (w >> size & 7) : 11 + (w >> size & 127);
    }
    if (repeats > lengths.size() - done) return false;
    std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(done), repeats, value);
    done += repeats;
    bit += size + extra;
  }
  return bit <= data.size() * 8;
}

// Whether a code of lengths up to 15 is complete, or has one symbol of one bit, or none.
bool is_code(std::span<const std::uint8_t> lengths, bool may_be_incomplete) {
  unsigned total = 0;
  unsigned longest = 0;
  for (const std::uint8_t length : lengths) {
    if (length != 0) total += 1U << (15 - length);
    longest = std::max<unsigned>(longest, length);
  }
  return total == 1U << 15 || (may_be_incomplete && longest <= 1 && total < 1U << 15);
}

// Whether the rest of the header of a block is valid, whose code of lengths is complete.
bool is_header(std::uint64_t w, Bytes data, std::uint64_t start) {
  const std::size_t literals = (w >> 3 & 31) + 257;
  const std::size_t distances = (w >> 8 & 31) + 1;
  const unsigned symbols = (w >> 13 & 15) + 4;
  const LengthCode code(bits_at(data, start + kHeaderBits), symbols);
  std::array<std::uint8_t, kMostSymbols> memory;
  const std::span<std::uint8_t> lengths(memory.data(), literals + distances);
  const std::uint64_t first = start + kHeaderBits + symbols * kCodeLengthBits;
  return read_lengths(data, first, code, lengths) && lengths[256] != 0 &&
         is_code(lengths.first(literals), false) && is_code(lengths.subspan(literals), true);
}

// Returns the bit before `end` where a stored block can start whose size is at byte `at`. The zeros
// that align it are no part of it.
std::optional<std::uint64_t> stored_block(Bytes data, std::size_t at, std::uint64_t begin) {
  if (at == 0 || at + 4 > data.size() || at * 8 < begin + 3) return std::nullopt;
  const unsigned size = load<std::uint16_t>(data, at);
  const unsigned inverse = load<std::uint16_t>(data, at + 2);
  const bool has_header = (std::to_integer<unsigned>(data[at - 1]) & 0xe0) == 0;
  if ((size ^ inverse) != 0xffff || !has_header) return std::nullopt;
  return at * 8 - 3;
}

}  // namespace

std::optional<std::uint64_t> find_deflate_block(Bytes data, std::uint64_t begin,
                                                std::uint64_t end) {
  end = std::min<std::uint64_t>(end, data.size() * 8);
  std::size_t byte = begin / 8 + 1;  // where the size of a stored block can be
  for (std::uint64_t at = begin; at < end; at += kPositionsInWord) {
    const std::uint64_t low = bits_at(data, at);
    const std::uint64_t high = bits_at(data, at + 64);
    std::uint64_t starts = possible_starts(low) & ((std::uint64_t{1} << kPositionsInWord) - 1);
    std::optional<std::uint64_t> found;
    for (; starts != 0 && !found; starts &= starts - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(starts));
      if (is_complete(low, high, bit) && is_header(low >> bit, data, at + bit)) found = at + bit;
    }
    for (; byte * 8 < at + kPositionsInWord + 3; ++byte) {
      const auto stored = stored_block(data, byte, begin);
      if (stored && (!found || *stored < *found)) {
        found = stored;
        break;
      }
    }
    if (found) return *found < end ? found : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tio
