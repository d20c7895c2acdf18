#include "records/index_set.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tio {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

using Numbered = std::pair<std::int64_t, std::size_t>;  // a number and its position

std::vector<Numbered> in_order(std::span<const std::int64_t> numbers) {
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
    if (count < 0 || count > kMost - end) return std::nullopt;
    set.ends_.push_back(end += count);
  }
  set.views_.resize(counts.size());
  set.seen_ = std::vector<std::atomic<std::uint64_t>>(counts.size());
  return set;
}

bool IndexSet::take(std::size_t file, Bytes index, std::uint64_t epoch, std::string& reason) {
  if (!views_[file]) {
    auto view = IndexView::open(index, false, reason);
    if (!view) return false;
    const std::int64_t count = ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
    if (view->header().count != static_cast<std::uint64_t>(count)) {
      reason = "it has another number of records";
      return false;
    }
    views_[file] = std::move(view);
  }
  seen_[file].store(epoch, std::memory_order_release);
  return true;
}

bool IndexSet::locate_in_file(Frame& frame) const {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (!views_[frame.file]->locate(static_cast<std::uint64_t>(frame.record), start, end) ||
      end > static_cast<std::uint64_t>(kMost)) {
    return false;
  }
  frame.start = static_cast<std::int64_t>(start);
  frame.end = static_cast<std::int64_t>(end);
  return true;
}

Found IndexSet::find_files(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                           std::vector<Frame>& frames, std::vector<std::int64_t>& unseen) const {
  const std::vector<Numbered> order = in_order(numbers);
  if (order.empty()) return Found::all;
  if (order.front().first < 0 || order.back().first >= records()) return Found::no_such_record;
  frames.reserve(order.size());
  auto end = ends_.begin();  // of the file that the number is in
  bool seen = false;
  for (const auto& [number, position] : order) {
    const bool moves = number >= *end;
    if (moves) end = std::upper_bound(end, ends_.end(), number);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    if (moves || frames.empty()) {
      seen = is_seen(file, epoch);
      if (!seen) unseen.push_back(static_cast<std::int64_t>(file));
    }
    const std::int64_t record = number - (file == 0 ? 0 : ends_[file - 1]);
    if (seen) views_[file]->prefetch(static_cast<std::uint64_t>(record));
    frames.push_back({position, file, record, 0, 0});
  }
  return unseen.empty() ? Found::all : Found::unseen;
}

template <class Visit>
Found IndexSet::visit_frames(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                             std::vector<std::int64_t>& unseen, Visit visit) const {
  std::vector<Frame> frames;
  const Found found = find_files(numbers, epoch, frames, unseen);
  if (found != Found::all) return found;
  for (Frame& frame : frames) {
    if (!locate_in_file(frame) || !visit(frame)) return Found::damaged;
  }
  return Found::all;
}

Found IndexSet::locate(std::span<const std::int64_t> numbers, std::uint64_t epoch, Places& places,
                       std::vector<std::int64_t>& unseen) const {
  places.files.resize(numbers.size());
  places.starts.resize(numbers.size());
  return visit_frames(numbers, epoch, unseen, [&](const Frame& frame) {
    places.files[frame.position] = static_cast<std::int64_t>(frame.file);
    places.starts[frame.position] = frame.start;
    return true;
  });
}

Found IndexSet::plan(std::span<const std::int64_t> numbers, std::uint64_t epoch, std::int64_t gap,
                     ReadPlan& plan, std::vector<std::int64_t>& unseen) const {
  plan.sizes.resize(numbers.size());
  plan.placed.resize(numbers.size());
  Frame last;
  const auto found = visit_frames(numbers, epoch, unseen, [&](const Frame& frame) {
    const bool same_file = !plan.ranges.empty() && frame.file == last.file;
    const bool again = same_file && frame.record == last.record;
    // Neither is taken for granted: an index may have been damaged on purpose.
    const bool near = same_file && frame.start >= last.end && frame.start - last.end <= gap;
    if (!same_file) {
      plan.files.push_back(static_cast<std::int64_t>(frame.file));
      plan.cuts.push_back(static_cast<std::int64_t>(plan.ranges.size()));
    }
    if (!again && !near) plan.ranges.push_back({frame.start, 0, plan.buffer_bytes});
    Range& range = plan.ranges.back();
    range.size = frame.end - range.offset;
    if (range.size > kMost - range.place) return false;
    plan.buffer_bytes = range.place + range.size;
    plan.sizes[frame.position] = frame.end - frame.start;
    plan.placed[frame.position] = range.place + (frame.start - range.offset);
    last = frame;
    return true;
  });
  plan.cuts.push_back(static_cast<std::int64_t>(plan.ranges.size()));
  return found;
}

}  // namespace tio
