#include "records/index_set.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tio {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

using Numbered = std::pair<std::int64_t, std::size_t>;  // a number and its position

std::vector<Numbered> sort_numbers(std::span<const std::int64_t> numbers) {
  std::vector<Numbered> order(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) order[i] = {numbers[i], i};
  if (!std::ranges::is_sorted(numbers)) std::ranges::sort(order);
  return order;
}

}  // namespace

std::optional<IndexSet> IndexSet::open(std::span<const std::int64_t> counts) {
  IndexSet set;
  std::int64_t end = 0;
  for (const std::int64_t count : counts) {
    if (count < 0 || count > kMax - end) return std::nullopt;
    set.ends_.push_back(end += count);
  }
  set.indexes_.resize(counts.size());
  set.checked_ = std::vector<std::atomic<std::uint64_t>>(counts.size());
  return set;
}

bool IndexSet::mark_checked(std::size_t file, Bytes index, const Owner& owner, std::uint64_t epoch,
                            std::string& reason) {
  if (!indexes_[file]) {
    auto view = IndexView::open(index, false, reason);
    if (!view) return false;
    const std::int64_t count = ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
    if (view->header().records != static_cast<std::uint64_t>(count)) {
      reason = "it has another number of records";
      return false;
    }
    indexes_[file] = OpenIndex{std::move(*view), owner};
  }
  checked_[file].store(epoch, std::memory_order_release);
  return true;
}

bool IndexSet::locate_in_file(Frame& frame) const {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (!indexes_[frame.file]->view.locate(static_cast<std::uint64_t>(frame.record), start, end) ||
      end > static_cast<std::uint64_t>(kMax)) {
    return false;
  }
  frame.start = static_cast<std::int64_t>(start);
  frame.end = static_cast<std::int64_t>(end);
  return true;
}

Lookup IndexSet::find_files(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                            std::vector<Frame>& frames,
                            std::vector<std::int64_t>& unchecked) const {
  const std::vector<Numbered> order = sort_numbers(numbers);
  if (order.empty()) return Lookup::found;
  if (order.front().first < 0 || order.back().first >= records()) return Lookup::no_such_record;
  frames.reserve(order.size());
  auto end = ends_.begin();  // of the file that has the number
  bool is_ready = false;
  for (const auto& [number, position] : order) {
    const bool moves = number >= *end;
    if (moves) end = std::upper_bound(end, ends_.end(), number);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    if (moves || frames.empty()) {
      is_ready = is_checked(file, epoch);
      if (!is_ready) unchecked.push_back(static_cast<std::int64_t>(file));
    }
    const std::int64_t record = number - (file == 0 ? 0 : ends_[file - 1]);
    if (is_ready) indexes_[file]->view.prefetch(static_cast<std::uint64_t>(record));
    frames.push_back({position, file, record, 0, 0});
  }
  return unchecked.empty() ? Lookup::found : Lookup::unchecked;
}

template <class Visit>
Lookup IndexSet::visit_frames(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                              std::vector<std::int64_t>& unchecked, Visit visit) const {
  std::vector<Frame> frames;
  const Lookup lookup = find_files(numbers, epoch, frames, unchecked);
  if (lookup != Lookup::found) return lookup;
  for (Frame& frame : frames) {
    if (!locate_in_file(frame) || !visit(frame)) return Lookup::damaged;
  }
  return Lookup::found;
}

Lookup IndexSet::locate(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                        FrameLocations& locations) const {
  locations.files.resize(numbers.size());
  locations.starts.resize(numbers.size());
  return visit_frames(numbers, epoch, locations.unchecked_files, [&](const Frame& frame) {
    locations.files[frame.position] = static_cast<std::int64_t>(frame.file);
    locations.starts[frame.position] = frame.start;
    return true;
  });
}

Lookup IndexSet::plan(std::span<const std::int64_t> numbers, std::uint64_t epoch, std::int64_t gap,
                      ReadPlan& plan) const {
  plan.numbers.assign(numbers.begin(), numbers.end());
  plan.frame_sizes.resize(numbers.size());
  plan.frame_starts.resize(numbers.size());
  Frame last;
  const auto add_frame = [&](const Frame& frame) {
    const bool is_same_file = !plan.files.empty() && frame.file == last.file;
    const bool is_same_record = is_same_file && frame.record == last.record;
    // An index may have been damaged on purpose, so the frames may overlap.
    const bool is_near = is_same_file && frame.start >= last.end && frame.start - last.end <= gap;
    if (!is_same_file) {
      if (!plan.files.empty())
        plan.range_bounds.push_back(static_cast<std::int64_t>(plan.ranges.size()));
      plan.files.push_back(static_cast<std::int64_t>(frame.file));
    }
    if (!is_same_record && !is_near) plan.ranges.push_back({frame.start, 0, plan.buffer_bytes});
    Range& range = plan.ranges.back();
    range.size = frame.end - range.offset;
    if (range.size > kMax - range.target) return false;
    plan.buffer_bytes = range.target + range.size;
    plan.frame_sizes[frame.position] = frame.end - frame.start;
    plan.frame_starts[frame.position] = range.target + (frame.start - range.offset);
    last = frame;
    return true;
  };
  const Lookup lookup = visit_frames(numbers, epoch, plan.unchecked_files, add_frame);
  if (!plan.files.empty())
    plan.range_bounds.push_back(static_cast<std::int64_t>(plan.ranges.size()));
  return lookup;
}

}  // namespace tio
