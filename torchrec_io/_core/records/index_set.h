// The records of many indexed files, numbered consecutively across all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "records/index.h"
#include "records/read_plan.h"

namespace tio {

// Locations of some records, in the requested order.
struct FrameLocations {
  std::vector<std::int64_t> files;
  std::vector<std::int64_t> starts;           // of the frames, in the stream of the file
  std::vector<std::int64_t> unchecked_files;  // if any, the locations are missing; see IndexSet
};

enum class Lookup : std::uint8_t {
  found,
  unchecked,  // some of the files must be checked first
  no_such_record,
  damaged  // an index entry contradicts its index
};

// The indexes of some files. Before its index is read in an epoch, a file must have been checked
// for changes in that epoch: a mapped index file that was truncated would end the process. Any
// thread may look up records at any time. Only one thread at a time may call `mark_checked`.
class IndexSet {
 public:
  // Returns nothing if a count is negative, or if their sum overflows.
  static std::optional<IndexSet> open(std::span<const std::int64_t> counts);

  IndexSet(const IndexSet&) = delete;
  IndexSet(IndexSet&&) = default;

  std::int64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t files() const { return ends_.size(); }

  // Notes that a file was checked in an epoch. The first call for a file opens its index, and
  // shares the owner of its bytes. Returns false, with a reason, if that is not a valid index with
  // the expected number of records.
  bool mark_checked(std::size_t file, Bytes index, const Owner& owner, std::uint64_t epoch,
                    std::string& reason);

  bool is_checked(std::size_t file, std::uint64_t epoch) const {
    return checked_[file].load(std::memory_order_acquire) >= epoch;
  }

  Lookup locate(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                FrameLocations& locations) const;

  // Plans the reads that fetch records. Frames with at most `gap` bytes between them are read at
  // once.
  Lookup plan(std::span<const std::int64_t> numbers, std::uint64_t epoch, std::int64_t gap,
              ReadPlan& plan) const;

 private:
  struct Frame {
    std::size_t position = 0;  // among the requested numbers
    std::size_t file = 0;
    std::int64_t record = 0;  // number in the file
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  struct OpenIndex {
    IndexView view;
    Owner owner;
  };

  IndexSet() = default;

  // Finds the file of each record, in the order of their numbers.
  Lookup find_files(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                    std::vector<Frame>& frames, std::vector<std::int64_t>& unchecked) const;

  // Calls `visit(frame)` for each record in the order of their numbers. It returns false if the
  // frame is damaged.
  template <class Visit>
  Lookup visit_frames(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                      std::vector<std::int64_t>& unchecked, Visit visit) const;
  bool locate_in_file(Frame& frame) const;

  std::vector<std::int64_t> ends_;                   // end of each file's record numbers
  std::vector<std::optional<OpenIndex>> indexes_;    // set once, before `checked_` is
  std::vector<std::atomic<std::uint64_t>> checked_;  // epoch in which each file was last checked
};

}  // namespace tio
