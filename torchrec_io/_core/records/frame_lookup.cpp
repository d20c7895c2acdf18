#include "records/frame_lookup.h"

#include <algorithm>
#include <limits>

namespace tio {

bool FrameLookup::is_found() const {
  return frames.size() == numbers.size() &&
         std::ranges::all_of(frames, [](const Frame& frame) { return frame.end >= 0; });
}

FrameLocations FrameLookup::locations() const {
  FrameLocations locations;
  for (auto* values : {&locations.files, &locations.starts, &locations.ends}) {
    values->resize(frames.size());
  }
  for (const Frame& frame : frames) {
    locations.files[frame.position] = static_cast<std::int64_t>(frame.file);
    locations.starts[frame.position] = frame.start;
    locations.ends[frame.position] = frame.end;
  }
  return locations;
}

std::optional<ReadPlan> FrameLookup::plan(std::int64_t gap) const {
  ReadPlan plan;
  plan.numbers = numbers;
  plan.frame_sizes.resize(numbers.size());
  plan.frame_starts.resize(numbers.size());
  Frame last;
  for (const Frame& frame : frames) {
    const bool is_same_file = !plan.files.empty() && frame.file == last.file;
    const bool is_same_record = is_same_file && frame.record == last.record;
    // An index may have been changed on purpose, so the frames may overlap.
    const bool is_near = is_same_file && frame.start >= last.end && frame.start - last.end <= gap;
    if (!is_same_file) {
      if (!plan.files.empty())
        plan.range_bounds.push_back(static_cast<std::int64_t>(plan.ranges.size()));
      plan.files.push_back(static_cast<std::int64_t>(frame.file));
    }
    if (!is_same_record && !is_near) plan.ranges.push_back({frame.start, 0, plan.buffer_bytes});
    Range& range = plan.ranges.back();
    range.size = frame.end - range.offset;
    if (range.size > std::numeric_limits<std::int64_t>::max() - range.target) return std::nullopt;
    plan.buffer_bytes = range.target + range.size;
    plan.frame_sizes[frame.position] = frame.end - frame.start;
    plan.frame_starts[frame.position] = range.target + (frame.start - range.offset);
    last = frame;
  }
  if (!plan.files.empty())
    plan.range_bounds.push_back(static_cast<std::int64_t>(plan.ranges.size()));
  return plan;
}

}  // namespace tio
