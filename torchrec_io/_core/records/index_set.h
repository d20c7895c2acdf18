// The records of many indexed files, numbered consecutively across all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "records/frame_lookup.h"
#include "records/index.h"

namespace tio {

enum class Lookup : std::uint8_t {
  found,
  unchecked,  // some of the files must be checked first
  missing,    // some pages must be read first
  no_such_record,
  damaged  // an index entry contradicts its index
};

// The indexes of some files. Before its index is used in an epoch, a file must have been checked
// for changes in that epoch. Pages of indexes that are not in memory are read by the caller, and
// the most recently added ones are kept. Any thread may look up records and add pages at any time.
// Only one thread at a time may call `mark_checked`.
class IndexSet {
 public:
  static constexpr std::size_t kMostPages = std::size_t{1} << 14;  // 64 MiB
  static constexpr std::size_t kLeastPages = 4;

  // Returns nothing if a count is negative, or if there are more than kMostRecords. `most_pages` is
  // the number of pages that are kept, at least kLeastPages.
  static std::optional<IndexSet> open(std::span<const std::int64_t> counts,
                                      std::size_t most_pages = kMostPages);

  IndexSet(const IndexSet&) = delete;
  IndexSet(IndexSet&&) = default;

  std::int64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t files() const { return ends_.size(); }

  // Notes that a file was checked in an epoch. The first call for a file takes its index. Returns
  // false if that does not have the expected number of records.
  bool mark_checked(std::size_t file, std::shared_ptr<const Index> index, std::uint64_t epoch);

  bool is_checked(std::size_t file, std::uint64_t epoch) const {
    return checked_[file].load(std::memory_order_acquire) >= epoch;
  }

  // Finds the frames of a lookup. If files must be checked, or pages read, the lookup lists them,
  // and is continued by another call. Each call finds more frames, so that a lookup may need more
  // pages than are kept.
  Lookup find(FrameLookup& lookup, std::uint64_t epoch) const;

  // Takes pages that were read into a buffer. Returns false if one differs from the indexed page.
  bool add_pages(const MissingPages& missing, Bytes buffer);

 private:
  struct OpenIndex {
    std::shared_ptr<const Index> index;
    std::vector<std::unique_ptr<std::byte[]>> pages;  // empty if the offsets are in memory

    // Returns the entry of a record; nothing if its page is missing.
    const std::byte* entry(std::uint64_t record) const {
      if (pages.empty()) return index->offsets().data() + record * 4;
      const std::byte* page = pages[record / kPageRecords].get();
      return page == nullptr ? nullptr : page + record % kPageRecords * 4;
    }
  };
  struct PageName {
    std::size_t file = 0;
    std::size_t page = 0;
  };

  IndexSet() = default;

  // Finds the file of each record, in the order of their numbers.
  Lookup find_files(FrameLookup& lookup, std::uint64_t epoch) const;
  // Locates a frame; returns false if its entry is damaged. If pages are missing, adds them to the
  // lookup.
  bool locate(FrameLookup::Frame& frame, FrameLookup& lookup) const;
  void add_missing(std::size_t file, std::size_t page, FrameLookup& lookup) const;
  void keep(PageName name, Bytes page);

  std::vector<std::int64_t> ends_;                   // end of each file's record numbers
  std::vector<OpenIndex> indexes_;                   // set once, before `checked_` is
  std::vector<std::atomic<std::uint64_t>> checked_;  // epoch in which each file was last checked
  std::size_t most_pages_ = kMostPages;
  // Guards the pages. They are replaced in the order in which they were added.
  std::unique_ptr<std::shared_mutex> mutex_ = std::make_unique<std::shared_mutex>();
  std::vector<PageName> kept_;
  std::size_t oldest_ = 0;  // in `kept_`, once that is full
};

}  // namespace tio
