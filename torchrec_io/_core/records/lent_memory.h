// Memory that is lent for reading, with the frames of several batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "records/read_plan.h"
#include "wire/bytes.h"

namespace tio {

// Pieces of memory, and where they belong in one buffer that would hold them all.
struct LentMemory {
  struct Piece {
    Bytes bytes;
    std::int64_t target = 0;
  };

  std::vector<Piece> pieces;  // ascending by target
  std::vector<Owner> owners;  // of the memory
};

// The part of lent memory that belongs to one batch: targets from `begin` on.
struct LentBatch {
  std::shared_ptr<const LentMemory> memory;
  std::int64_t begin = 0;
};

// Copies the bytes that a plan reads from lent memory, and checks its frames. Returns false if some
// bytes are missing, or a frame is invalid.
bool copy_checked_frames(const LentBatch& from, const ReadPlan& plan, MutableBytes buffer,
                         bool check_crcs);

}  // namespace tio
