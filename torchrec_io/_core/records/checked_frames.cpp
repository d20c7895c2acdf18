#include "records/checked_frames.h"

#include "timing/steps.h"

namespace tio {

bool read_checked_frames(const CheckedBlocks& from, const ReadPlan& plan, MutableBytes buffer,
                         bool check_crcs) {
  StepScope step(Counter::reading);
  std::vector<const CheckedFile*> files;
  for (const auto& file : from.files) files.push_back(file.get());
  // Blocks that are missing are not read: the buffer may have the frames of another batch.
  if (block_numbers(plan.ranges, from.block_bytes).size() != files.size()) return false;
  // The checksums of the records suffice, and do not need the rest of the chunks around them.
  if (!read_blocks(files, plan.ranges, from.block_bytes, buffer, !check_crcs).empty()) return false;
  step.next(Counter::checking);
  return check_frames(plan, buffer, check_crcs);
}

}  // namespace tio
