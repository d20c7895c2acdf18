#include "records/read_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "records/framing.h"
#include "timing/steps.h"

namespace tio {

std::int64_t ReadPlan::stored_bytes(std::size_t begin, std::size_t end) const {
  end = std::min(end, frame_sizes.size());
  begin = std::min(begin, end);
  return std::accumulate(frame_sizes.data() + begin, frame_sizes.data() + end, std::int64_t{0});
}

std::optional<ReadPlan> join_reads(std::span<const ReadPlan* const> plans) {
  ReadPlan joined;
  std::map<std::int64_t, std::int64_t> counts;  // ranges of each file
  for (const ReadPlan* plan : plans) {
    for (std::size_t file = 0; file < plan->files.size(); ++file) {
      counts[plan->files[file]] += plan->range_bounds[file + 1] - plan->range_bounds[file];
    }
  }
  std::map<std::int64_t, Range*> next;
  for (const auto& [file, count] : counts) {
    joined.files.push_back(file);
    joined.range_bounds.push_back(joined.range_bounds.back() + count);
  }
  joined.ranges.resize(static_cast<std::size_t>(joined.range_bounds.back()));
  for (std::size_t i = 0; i < joined.files.size(); ++i) {
    next[joined.files[i]] = joined.ranges.data() + joined.range_bounds[i];
  }
  for (const ReadPlan* plan : plans) {
    const std::int64_t begin = joined.buffer_bytes;
    if (__builtin_add_overflow(begin, plan->buffer_bytes, &joined.buffer_bytes)) return {};
    for (std::size_t file = 0; file < plan->files.size(); ++file) {
      Range*& out = next[plan->files[file]];
      for (auto i = plan->range_bounds[file]; i < plan->range_bounds[file + 1]; ++i) {
        const Range& range = plan->ranges[static_cast<std::size_t>(i)];
        *out++ = {range.offset, range.size, begin + range.target};
      }
    }
  }
  return joined;
}

bool read_frames(const ReadPlan& plan, std::span<const int> descriptors, MutableBytes buffer,
                 bool check_crcs) {
  StepScope step(Counter::reading);
  const ReadResult read = read_ranges(descriptors, plan.ranges, plan.range_bounds, buffer);
  if (read.error != 0 || read.truncated_range) return false;
  step.next(Counter::checking);
  return check_frames(plan, buffer, check_crcs);
}

bool check_frames(const ReadPlan& plan, MutableBytes buffer, bool check_crcs) {
  for (std::size_t i = 0; i < plan.frame_sizes.size(); ++i) {
    const auto start = static_cast<std::uint64_t>(plan.frame_starts[i]);
    const auto length = static_cast<std::uint64_t>(plan.frame_sizes[i]) - kFrameOverheadBytes;
    if (check_frame(buffer, start, length, check_crcs)) return false;
  }
  return true;
}

}  // namespace tio
