// Reads and copies many ranges of bytes at once. The caller opens the files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/bytes.h"

namespace tio {

// A range to read or copy. Python passes ranges as rows of an int64 array [n, 3], with the columns
// in this order.
struct Range {
  std::int64_t offset = 0;  // in the source
  std::int64_t size = 0;
  std::int64_t target = 0;  // offset in the buffer that receives the bytes
};

// The result of reading ranges.
struct ReadResult {
  // The range that extends past the end of its file, if any.
  std::optional<std::size_t> truncated_range;
  int error = 0;  // an errno; 0 if there was no error
};

// Reads ranges of several files with pread: those of file i are ranges[bounds[i]] to
// ranges[bounds[i + 1] - 1]. The bounds ascend, and every target lies inside the buffer. While a
// thread has to wait for storage, the system is told in advance which ranges are read next.
ReadResult read_ranges(std::span<const int> descriptors, std::span<const Range> ranges,
                       std::span<const std::int64_t> bounds, MutableBytes buffer);

// Copies the ranges one after another. Source and buffer may overlap. All ranges lie inside of
// both.
void copy_ranges(Bytes source, std::span<const Range> ranges, MutableBytes buffer);

}  // namespace tio
