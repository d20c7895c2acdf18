#include "records/read_plan.h"

#include <algorithm>
#include <numeric>

#include "records/framing.h"
#include "timing/steps.h"

namespace tio {

std::int64_t ReadPlan::stored_bytes(std::size_t begin, std::size_t end) const {
  end = std::min(end, frame_sizes.size());
  begin = std::min(begin, end);
  return std::accumulate(frame_sizes.data() + begin, frame_sizes.data() + end, std::int64_t{0});
}

bool ReadPlan::continues(const ReadPlan& other) const {
  return ranges.size() == 1 && other.ranges.size() == 1 && files == other.files &&
         ranges[0].offset == other.ranges[0].offset + other.ranges[0].size;
}

bool read_frames(const ReadPlan& plan, std::span<const int> descriptors, MutableBytes buffer,
                 bool check_data, std::uint64_t& waits) {
  StepScope step(Counter::reading);
  const ReadResult read = read_ranges(descriptors, plan.ranges, plan.range_bounds, buffer);
  waits += read.waits;
  if (read.error != 0 || read.truncated_range) return false;
  step.next(Counter::checking);
  return check_frames(plan, buffer, check_data);
}

bool check_frames(const ReadPlan& plan, MutableBytes buffer, bool check_data) {
  for (std::size_t i = 0; i < plan.frame_sizes.size(); ++i) {
    const auto start = static_cast<std::uint64_t>(plan.frame_starts[i]);
    const auto length = static_cast<std::uint64_t>(plan.frame_sizes[i]) - kFrameOverheadBytes;
    if (check_frame(buffer, start, length, check_data)) return false;
  }
  return true;
}

}  // namespace tio
