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
  // target may have been written even so.
  bool read(std::int64_t offset, MutableBytes target) const;

 private:
  bool is_valid(std::size_t first, Bytes head, Bytes target, Bytes tail) const;
};

// Returns the number of chunks of some bytes.
constexpr std::size_t count_chunks(std::size_t size) {
  return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0);
}

// Returns the checksum of each chunk of some bytes.
std::vector<std::uint32_t> chunk_checksums(Bytes bytes);

// Reads ranges of a file. Every target lies inside the buffer. Returns false as
// `CheckedFile::read`.
bool read_checked(const CheckedFile& file, std::span<const Range> ranges, MutableBytes buffer);

}  // namespace tio
