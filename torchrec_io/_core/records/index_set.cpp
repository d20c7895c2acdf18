#include "records/index_set.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "records/record_number.h"

namespace tio {
namespace {

// Number of pages that are read at once: 16 MiB.
constexpr std::size_t kMostMissing = std::size_t{1} << 12;

using Numbered = std::pair<std::int64_t, std::size_t>;  // a record's own number and its position

std::vector<Numbered> sort_numbers(std::span<const std::int64_t> numbers) {
  std::vector<Numbered> order(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) order[i] = {own_number(numbers[i]), i};
  if (!std::ranges::is_sorted(order)) std::ranges::sort(order);
  return order;
}

}  // namespace

std::optional<IndexSet> IndexSet::open(std::span<const std::int64_t> counts,
                                       std::size_t most_pages) {
  IndexSet set;
  std::int64_t end = 0;
  for (const std::int64_t count : counts) {
    if (count < 0 || count > kMostRecords - end) return std::nullopt;
    set.ends_.push_back(end += count);
  }
  set.indexes_.resize(counts.size());
  set.checked_ = std::vector<std::atomic<std::uint64_t>>(counts.size());
  set.most_pages_ = std::max(most_pages, kLeastPages);
  return set;
}

bool IndexSet::mark_checked(std::size_t file, std::shared_ptr<const Index> index,
                            std::uint64_t epoch) {
  OpenIndex& own = indexes_[file];
  if (own.index == nullptr) {
    const std::int64_t count = ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
    if (index->header().records != static_cast<std::uint64_t>(count)) return false;
    if (index->offsets().empty()) own.pages.resize(index->pages());
    own.index = std::move(index);
  }
  checked_[file].store(epoch, std::memory_order_release);
  return true;
}

Lookup IndexSet::find_files(FrameLookup& lookup, std::uint64_t epoch) const {
  lookup.frames.clear();
  const std::vector<Numbered> order = sort_numbers(lookup.numbers);
  if (order.empty()) return Lookup::found;
  if (order.front().first < 0 || order.back().first >= records()) return Lookup::no_such_record;
  lookup.frames.reserve(order.size());
  auto end = ends_.begin();  // of the file that has the number
  bool is_ready = false;
  for (const auto& [number, position] : order) {
    const bool moves = number >= *end;
    if (moves) end = std::upper_bound(end, ends_.end(), number);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    if (moves || lookup.frames.empty()) {
      is_ready = is_checked(file, epoch);
      if (!is_ready) lookup.unchecked_files.push_back(static_cast<std::int64_t>(file));
    }
    const std::int64_t record = number - (file == 0 ? 0 : ends_[file - 1]);
    // For scattered records, most time is spent waiting for the entries.
    if (is_ready) __builtin_prefetch(indexes_[file].entry(static_cast<std::uint64_t>(record)));
    lookup.frames.push_back({position, file, record});
  }
  if (lookup.unchecked_files.empty()) return Lookup::found;
  lookup.frames.clear();  // found again once the files are checked
  return Lookup::unchecked;
}

void IndexSet::add_missing(std::size_t file, std::size_t page, FrameLookup& lookup) const {
  const auto number = static_cast<std::int64_t>(file);
  if (lookup.missing.empty() || lookup.missing.back().file != number) {
    lookup.missing.push_back({number, {}, {}, 0});
  }
  MissingPages& missing = lookup.missing.back();
  if (!missing.pages.empty() && missing.pages.back() >= page) return;
  const IndexRange range = indexes_[file].index->page_range(page);
  const auto size = static_cast<std::int64_t>(range.size);
  if (!missing.pages.empty() && missing.pages.back() + 1 == page) {
    missing.ranges.back().size += size;
  } else {
    missing.ranges.push_back({static_cast<std::int64_t>(range.offset), size, missing.bytes});
  }
  missing.pages.push_back(page);
  ++lookup.missing_count;
  missing.bytes += size;
}

bool IndexSet::locate(FrameLookup::Frame& frame, FrameLookup& lookup) const {
  const OpenIndex& own = indexes_[frame.file];
  const auto record = static_cast<std::uint64_t>(frame.record);
  const bool is_last = record + 1 == own.index->header().records;
  const std::byte* entry = own.entry(record);
  const std::byte* next = is_last ? entry : own.entry(record + 1);
  if (entry == nullptr || next == nullptr) {
    if (entry == nullptr) add_missing(frame.file, record / kPageRecords, lookup);
    if (next == nullptr && !is_last) {
      add_missing(frame.file, (record + 1) / kPageRecords, lookup);
    }
    return true;
  }
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (!own.index->locate(record, entry, next, start, end)) return false;
  frame.start = static_cast<std::int64_t>(start);
  frame.end = static_cast<std::int64_t>(end);
  return true;
}

Lookup IndexSet::find(FrameLookup& lookup, std::uint64_t epoch) const {
  lookup.unchecked_files.clear();
  lookup.missing.clear();
  lookup.missing_count = 0;
  const std::size_t most = std::min(kMostMissing, most_pages_ / 2);
  const std::shared_lock lock(*mutex_);
  // A call that ran out of memory may have left some frames, but not all.
  if (lookup.frames.size() != lookup.numbers.size()) {
    const Lookup files = find_files(lookup, epoch);
    if (files != Lookup::found) return files;
  }
  for (FrameLookup::Frame& frame : lookup.frames) {
    if (frame.end >= 0) continue;
    if (!locate(frame, lookup)) {
      lookup.damaged_file = static_cast<std::int64_t>(frame.file);
      return Lookup::damaged;
    }
    // A frame may need two pages.
    if (lookup.missing_count + 2 > most) break;
  }
  return lookup.missing.empty() ? Lookup::found : Lookup::missing;
}

bool IndexSet::add_pages(const MissingPages& missing, Bytes buffer) {
  const auto file = static_cast<std::size_t>(missing.file);
  const Index& index = *indexes_[file].index;
  std::size_t at = 0;
  for (const std::size_t page : missing.pages) {
    const std::size_t size = index.page_range(page).size;
    if (size > buffer.size() - at || !index.is_page(page, buffer.subspan(at, size))) return false;
    at += size;
  }
  at = 0;
  const std::unique_lock lock(*mutex_);
  for (const std::size_t page : missing.pages) {
    const std::size_t size = index.page_range(page).size;
    keep({file, page}, buffer.subspan(at, size));
    at += size;
  }
  return true;
}

void IndexSet::keep(PageName name, Bytes page) {
  auto& target = indexes_[name.file].pages[name.page];
  if (target != nullptr) return;  // another thread was faster
  auto copy = std::make_unique_for_overwrite<std::byte[]>(page.size());
  std::ranges::copy(page, copy.get());
  if (kept_.size() < most_pages_) {
    kept_.push_back(name);  // first: a page that is not listed would never be replaced
    target = std::move(copy);
    return;
  }
  target = std::move(copy);
  PageName& oldest = kept_[oldest_];
  indexes_[oldest.file].pages[oldest.page].reset();
  oldest = name;
  oldest_ = (oldest_ + 1) % most_pages_;
}

}  // namespace tio
