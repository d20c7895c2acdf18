// The implementations of varint decoding, one per instruction set. Only varint.cpp calls them.
#pragma once

#include <cstdint>

#include "wire/bytes.h"

namespace tio::varint_paths {

// Each `decode` function decodes up to `limit` values from offset `at` of a packed list into `out`,
// moves `at` past them, and returns their number. Each may overwrite the rest of `out`.

// Each `count` function counts the values that end in whole blocks of the list from offset `at` on,
// and moves `at` past those blocks. Fewer bytes than a block may be left.

#if defined(__x86_64__)

// May stop before any value. The portable path continues from there.
std::size_t decode_avx2(Bytes packed, std::size_t& at, std::int64_t* out, std::size_t limit);
std::size_t decode_avx512(Bytes packed, std::size_t& at, std::int64_t* out, std::size_t limit);

std::uint64_t count_avx2(Bytes packed, std::size_t& at);

// ---- shared by both x86 paths ----

constexpr std::size_t kBlock = 64;
// A value is loaded together with the bytes that follow it.
constexpr std::size_t kReadable = kBlock + 8;

// Returns the block at offset `at`, of which kReadable bytes can be loaded. Near the end of the
// list this is a zero-padded copy.
inline const std::byte* readable_block(Bytes packed, std::size_t at, std::byte* copy) {
  const std::size_t left = packed.size() - at;
  if (left >= kReadable) return packed.data() + at;
  std::memset(copy, 0, kReadable);
  std::memcpy(copy, packed.data() + at, left);
  return copy;
}

#endif

}  // namespace tio::varint_paths
