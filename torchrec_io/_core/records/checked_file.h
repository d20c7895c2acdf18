// Files whose chunks have checksums, so that damage is found when a part of them is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "records/ranges.h"
#include "wire/bytes.h"

namespace tio {

// Size of a chunk. A page: the system reads no less.
inline constexpr std::size_t kChunkBytes = 4096;

// An open file and the CRC-32C of each chunk of its first `size` bytes; the last chunk may be
// short.
struct CheckedFile {
  int descriptor = -1;
  std::int64_t size = 0;
  std::vector<std::uint32_t> checksums;

  // Reads a range. Returns false if it is not inside the file, cannot be read, or is damaged. The
  // target may have been written even so. Damage is not found without `checks`.
  bool read(std::int64_t offset, MutableBytes target, bool checks = true) const;

 private:
  bool is_valid(std::size_t first, Bytes head, Bytes target, Bytes tail) const;
};

// Returns the number of chunks of some bytes.
constexpr std::size_t count_chunks(std::size_t size) {
  return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0);
}

// Returns the checksum of each chunk of some bytes.
std::vector<std::uint32_t> chunk_checksums(Bytes bytes);

// Returns the numbers of the blocks that ranges of an object touch: those of each range in turn.
// All blocks have the same size, except the last. An empty range touches none.
std::vector<std::int64_t> block_numbers(std::span<const Range> ranges, std::int64_t block_bytes);

// Reads ranges of an object whose blocks are files: those of `block_numbers`, one after another.
// Every target lies inside the buffer. Returns the positions in `files` of those that could not be
// read, or are damaged, which is not found without `checks`.
std::vector<std::size_t> read_blocks(std::span<const CheckedFile* const> files,
                                     std::span<const Range> ranges, std::int64_t block_bytes,
                                     MutableBytes buffer, bool checks = true);

}  // namespace tio
