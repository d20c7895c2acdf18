// CRCs of many parts of one buffer. The time of each is bounded, however long the part is.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/bytes.h"

namespace tio {

// Returns the CRC of data with the CRC `crc`, followed by `count` bytes, without the CRC of these
// bytes themselves: crc32c(a + b) == shift_crc(crc32c(a), b.size()) ^ crc32c(b).
std::uint32_t shift_crc(std::uint32_t crc, std::uint64_t count);

// Computes CRCs of parts of `buffer`, which must stay valid. The CRCs of its beginnings are kept,
// one for every few KiB. So overlapping long parts are not read again for each of them.
class CrcRanges {
 public:
  explicit CrcRanges(Bytes buffer) : buffer_(buffer) {}

  // Returns the CRC of the bytes from `begin` to `end`, which lie inside the buffer.
  std::uint32_t crc(std::size_t begin, std::size_t end);

 private:
  std::uint32_t crc_of_first(std::size_t count);

  Bytes buffer_;
  std::vector<std::uint32_t> starts_ = {0};  // CRC of the bytes before each multiple of the step
};

}  // namespace tio
