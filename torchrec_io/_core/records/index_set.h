// Records of many indexed files, numbered on from file to file: where some of them are, and the
// reads that fetch them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "records/index.h"
#include "records/ranges.h"

namespace tio {

// Where records are, in the order asked for.
struct Places {
  std::vector<std::int64_t> files;
  std::vector<std::int64_t> starts;  // of their frames, in the file's stream
};

// Reads that fetch records into one buffer. Those of ranges[cuts[i]] to ranges[cuts[i + 1] - 1] are
// of the file files[i].
struct ReadPlan {
  std::vector<std::int64_t> sizes;   // of each record's frame, in the order asked for
  std::vector<std::int64_t> placed;  // where it will start in the buffer
  std::vector<std::int64_t> files;   // ascending
  std::vector<std::int64_t> cuts;
  std::vector<Range> ranges;
  std::int64_t buffer_bytes = 0;
};

enum class Found : std::uint8_t {
  all,
  unseen,  // some of the files must be looked at first
  no_such_record,
  damaged  // an index entry contradicts its index
};

// The indexes of some files. Bytes of an index are not touched before `take` has had them, nor in
// an epoch in which it has not: a mapped file that was cut short would end the process. Any thread
// may ask at any time; `take` is for one at a time.
class IndexSet {
 public:
  // Nothing if a count is negative or the sum of them has no 64 bits.
  static std::optional<IndexSet> open(std::span<const std::int64_t> counts);

  IndexSet(const IndexSet&) = delete;
  IndexSet(IndexSet&&) = default;

  std::int64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t files() const { return ends_.size(); }

  // Notes that a file was looked at in an epoch. The first time its index is kept, which must stay
  // where it is. False: it is not an index of so many records.
  bool take(std::size_t file, Bytes index, std::uint64_t epoch, std::string& reason);

  bool is_seen(std::size_t file, std::uint64_t epoch) const {
    return seen_[file].load(std::memory_order_acquire) >= epoch;
  }

  // Both tell in `unseen` which files, ascending, were not looked at in the epoch.
  Found locate(std::span<const std::int64_t> numbers, std::uint64_t epoch, Places& places,
               std::vector<std::int64_t>& unseen) const;

  // Frames with at most `gap` bytes between them are read at once.
  Found plan(std::span<const std::int64_t> numbers, std::uint64_t epoch, std::int64_t gap,
             ReadPlan& plan, std::vector<std::int64_t>& unseen) const;

 private:
  struct Frame {
    std::size_t position = 0;  // among the numbers asked for
    std::size_t file = 0;
    std::int64_t record = 0;  // of the file
    std::int64_t start = 0;
    std::int64_t end = 0;
  };

  IndexSet() = default;

  // The files of the records, in the order of their numbers.
  Found find_files(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                   std::vector<Frame>& frames, std::vector<std::int64_t>& unseen) const;

  // Shows each record's frame in the order of their numbers; `visit` returns false for a damaged
  // one.
  template <class Visit>
  Found visit_frames(std::span<const std::int64_t> numbers, std::uint64_t epoch,
                     std::vector<std::int64_t>& unseen, Visit visit) const;
  bool locate_in_file(Frame& frame) const;

  std::vector<std::int64_t> ends_;                // number behind each file's last record
  std::vector<std::optional<IndexView>> views_;   // set before `seen_` is, and then for good
  std::vector<std::atomic<std::uint64_t>> seen_;  // in which epoch each file last was; 0 for none
};

}  // namespace tio
