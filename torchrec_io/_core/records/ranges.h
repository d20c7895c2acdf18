// Reads or copies many ranges of bytes: a call a batch instead of one a range. The caller has
// opened the files.
#pragma once

#include <cstdint>
#include <span>

#include "wire/bytes.h"

namespace tio {

struct Range {
  std::int64_t offset = 0;  // in the file, or in what is copied from
  std::int64_t size = 0;
  std::int64_t place = 0;  // in the buffer
};

// How reading went.
struct Reading {
  int error = 0;            // an errno; -1 where a file ended too early
  std::size_t failed = 0;   // the range at which it did
  std::uint64_t waits = 0;  // how often the thread slept: not all was in memory
};

// Reads ranges of several files with pread: ranges[cuts[i]] to ranges[cuts[i + 1] - 1] are of the
// file fds[i]. The cuts ascend and every place lies inside the buffer.
Reading read_ranges(std::span<const int> fds, std::span<const std::int64_t> cuts,
                    std::span<const Range> ranges, MutableBytes buffer);

// Tells the system that the ranges are about to be read. Only a hint: failures do not matter.
void advise_ranges(int fd, std::span<const Range> ranges);

// Copies each range, one after the other; the two may share memory. Offsets and places must lie
// inside them.
void copy_ranges(Bytes source, std::span<const Range> ranges, MutableBytes buffer);

// Frames in a buffer, of records by their ascending numbers; one of each for a record.
struct FrameBlock {
  Bytes buffer;
  std::span<const std::int64_t> numbers;
  std::span<const std::int64_t> placed;
  std::span<const std::int64_t> sizes;
};

// Records that are wanted: the frame of numbers[i] has sizes[i] bytes, is in the block named
// blocks[i], and goes to placed[i].
struct WantedFrames {
  std::span<const std::int64_t> numbers;
  std::span<const std::int64_t> blocks;
  std::span<const std::int64_t> placed;
  std::span<const std::int64_t> sizes;
};

// Copies the frames that are in `blocks`, whose names ascend; leaves those of others alone. Returns
// how many of the wanted ones went well: it stops at one that its block lacks or has in another
// size, or that does not lie inside a buffer.
std::size_t copy_frames(std::span<const FrameBlock> blocks, std::span<const std::int64_t> names,
                        const WantedFrames& wanted, MutableBytes buffer);

}  // namespace tio
