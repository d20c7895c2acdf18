#include "records/lent_memory.h"

#include <algorithm>
#include <cstring>

#include "timing/steps.h"

namespace tio {
namespace {

// Copies the pieces of a batch, and returns the number of their bytes; -1 if one does not lie
// inside the buffer.
std::int64_t copy_pieces(const LentBatch& from, MutableBytes buffer) {
  const auto& pieces = from.memory->pieces;
  std::int64_t end = 0;
  if (__builtin_add_overflow(from.begin, static_cast<std::int64_t>(buffer.size()), &end)) return -1;
  std::int64_t copied = 0;
  for (auto piece = std::ranges::lower_bound(pieces, from.begin, {}, &LentMemory::Piece::target);
       piece != pieces.end() && piece->target < end; ++piece) {
    const std::int64_t at = piece->target - from.begin;
    const auto size = static_cast<std::int64_t>(piece->bytes.size());
    if (!is_inside(at, size, buffer.size())) return -1;
    if (size != 0) std::memcpy(buffer.data() + at, piece->bytes.data(), piece->bytes.size());
    copied += size;
  }
  return copied;
}

}  // namespace

bool copy_checked_frames(const LentBatch& from, const ReadPlan& plan, MutableBytes buffer,
                         bool check_crcs) {
  StepScope step(Counter::reading);
  std::int64_t wanted = 0;
  for (const Range& range : plan.ranges) wanted += range.size;
  const auto size = static_cast<std::size_t>(plan.buffer_bytes);
  // The buffer may have the frames of another batch, which would be taken for those that are
  // missing.
  if (copy_pieces(from, buffer.first(size)) != wanted) return false;
  step.next(Counter::checking);
  return check_frames(plan, buffer, check_crcs);
}

}  // namespace tio
