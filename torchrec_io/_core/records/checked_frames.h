// Frames of records that are read from files with checksums.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "records/checked_file.h"
#include "records/read_plan.h"
#include "wire/bytes.h"

namespace tio {

// The blocks that the ranges of a plan touch; see read_blocks.
struct CheckedBlocks {
  std::vector<std::shared_ptr<const CheckedFile>> files;
  std::int64_t block_bytes = 1;
};

// Reads the frames of a plan from blocks, and checks them. Returns false if a block is missing,
// cannot be read or is damaged, or if a frame is invalid.
bool read_checked_frames(const CheckedBlocks& from, const ReadPlan& plan, MutableBytes buffer,
                         bool check_crcs);

}  // namespace tio
