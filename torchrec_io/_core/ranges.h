// Reads or copies many ranges of bytes: a call a batch instead of one a range. The caller has
// opened the file.
#pragma once

#include <cstdint>

#include "bytes.h"

namespace tio {

struct Range {
  std::int64_t offset = 0;  // in the file, or in what is copied from
  std::int64_t size = 0;
  std::int64_t place = 0;  // in the buffer
};

// Reads each range with pread. Returns 0, or an errno; `failed` is then the range it happened at,
// and likewise where the file ended too early, with -1. Every place must lie inside the buffer.
int read_ranges(int fd, std::span<const Range> ranges, MutableBytes buffer, std::size_t& failed);

// Tells the system that the ranges are about to be read. Only a hint: failures do not matter.
void advise_ranges(int fd, std::span<const Range> ranges);

// Copies each range, one after the other; the two may share memory. Offsets and places must lie
// inside them.
void copy_ranges(Bytes source, std::span<const Range> ranges, MutableBytes buffer);

}  // namespace tio
