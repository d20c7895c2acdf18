// Copies frames of records from blocks in memory to the buffer of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/bytes.h"

namespace tio {

// The frames of a block of records. Each record, by its number, has one frame.
struct FrameBlock {
  Bytes buffer;
  std::span<const std::int64_t> numbers;       // ascending
  std::span<const std::int64_t> frame_starts;  // in `buffer`
  std::span<const std::int64_t> frame_sizes;
};

// The records of a batch. Record numbers[i] is in the block with number blocks[i]. Its frame of
// frame_sizes[i] bytes is copied to frame_starts[i] of the buffer.
struct WantedFrames {
  std::span<const std::int64_t> numbers;
  std::span<const std::int64_t> blocks;
  std::span<const std::int64_t> frame_starts;
  std::span<const std::int64_t> frame_sizes;
};

// Copies the frames of the records that are in `blocks`, and skips all others. The numbers of the
// blocks ascend. Returns the position of the first record that its block lacks, whose frame has
// another size there, or whose frame does not lie inside the buffers; or nothing.
std::optional<std::size_t> gather_frames(std::span<const FrameBlock> blocks,
                                         std::span<const std::int64_t> block_numbers,
                                         const WantedFrames& wanted, MutableBytes buffer);

}  // namespace tio
