#include "records/read_plan.h"

#include "records/framing.h"

namespace tio {

bool ReadPlan::continues(const ReadPlan& other) const {
  return ranges.size() == 1 && other.ranges.size() == 1 && files == other.files &&
         ranges[0].offset == other.ranges[0].offset + other.ranges[0].size;
}

bool read_frames(const ReadPlan& plan, std::span<const int> descriptors, MutableBytes buffer,
                 bool check_data, std::uint64_t& waits) {
  const ReadResult read = read_ranges(descriptors, plan.ranges, plan.range_bounds, buffer);
  waits += read.waits;
  if (read.error != 0 || read.truncated_range) return false;
  for (std::size_t i = 0; i < plan.frame_sizes.size(); ++i) {
    const auto start = static_cast<std::uint64_t>(plan.frame_starts[i]);
    const auto length = static_cast<std::uint64_t>(plan.frame_sizes[i]) - kFrameOverheadBytes;
    if (check_frame(buffer, start, length, check_data)) return false;
  }
  return true;
}

}  // namespace tio
