// Copies frames of records from blocks in memory to the buffer of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "records/read_plan.h"
#include "wire/bytes.h"

namespace tio {

// The frames of a block of records, which were read by a plan whose numbers ascend.
struct FrameBlock {
  std::shared_ptr<const ReadPlan> plan;
  Bytes buffer;
  Owner owner;  // of the buffer
};

// Copies the frames of the records of a plan that are in `blocks` to its buffer, and skips all
// others. Record i is in the block with number record_blocks[i]. The numbers of the blocks ascend.
// Returns the position of the first record that its block lacks, whose frame has another size
// there, or whose frame does not lie inside the buffers; or nothing.
std::optional<std::size_t> gather_frames(std::span<const FrameBlock* const> blocks,
                                         std::span<const std::int64_t> block_numbers,
                                         const ReadPlan& plan,
                                         std::span<const std::int64_t> record_blocks,
                                         MutableBytes buffer);

}  // namespace tio
