// Varint decoding without special instructions, inline: it ends every other path.
#pragma once

#include "wire/cursor.h"
#include "wire/varint.h"

namespace tio::varint_paths {

inline constexpr std::uint64_t kContinue = 0x8080808080808080U;

// Counts the bits of a word that are in kContinue. A population count would be a function call.
inline std::uint64_t count_ends(std::uint64_t ends) {
  return ((ends >> 7) * 0x0101010101010101U) >> 56;
}

inline bool decode_one(Bytes packed, std::size_t& at, std::int64_t& out) {
  if (packed.size() - at >= 8) {
    const auto word = load<std::uint64_t>(packed, at);
    if (const std::uint64_t ends = ~word & kContinue) {
      const auto size = static_cast<unsigned>(__builtin_ctzll(ends)) / 8 + 1;
      at += size;
      return decode_word(word, size, out);
    }
  }
  Cursor cursor(packed.subspan(at));
  std::uint64_t value = 0;
  if (!cursor.read_varint(value)) return false;
  at += cursor.position();
  out = static_cast<std::int64_t>(value);
  return true;
}

// Stops early only at the end of the list, or before an invalid varint.
inline std::size_t decode_portable(Bytes packed, std::size_t& at, std::int64_t* out,
                                   std::size_t limit) {
  std::size_t done = 0;
  while (done < limit && at < packed.size() && decode_one(packed, at, out[done])) ++done;
  return done;
}

inline std::uint64_t count_portable(Bytes packed, std::size_t& at) {
  std::uint64_t count = 0;
  for (; packed.size() - at >= 8; at += 8) {
    const auto ends = ~load<std::uint64_t>(packed, at) & kContinue;
    count += count_ends(ends);
  }
  return count;
}

}  // namespace tio::varint_paths
