// The reads that fetch the records of a batch into one buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "records/ranges.h"
#include "wire/bytes.h"

namespace tio {

struct ReadPlan {
  std::vector<std::int64_t> numbers;          // [records]; in the requested order
  std::vector<std::int64_t> frame_sizes;      // [records]; bytes of each record's frame
  std::vector<std::int64_t> frame_starts;     // [records]; where each frame starts in the buffer
  std::vector<std::int64_t> files;            // the files that are read, ascending
  std::vector<std::int64_t> range_bounds{0};  // [files + 1]; the ranges of each, see read_ranges
  std::vector<Range> ranges;
  std::int64_t buffer_bytes = 0;

  // Number of bytes of the frames of the records from `begin` to `end`, as stored.
  std::int64_t stored_bytes(std::size_t begin, std::size_t end) const;
};

// Returns the reads of several plans, by file, into a buffer that has theirs one after the other.
// The plan has no records. Returns nothing if the buffer is too large.
std::optional<ReadPlan> join_reads(std::span<const ReadPlan* const> plans);

// Reads the frames of a plan, whose files are open as `descriptors`, and checks them. The buffer
// has at least `buffer_bytes`. Returns false if a frame cannot be read or is invalid; callers that
// need the reason read again.
bool read_frames(const ReadPlan& plan, std::span<const int> descriptors, MutableBytes buffer,
                 bool check_crcs);

// Checks the frames of a plan in its buffer, which has at least `buffer_bytes`. Returns false if
// one is invalid.
bool check_frames(const ReadPlan& plan, MutableBytes buffer, bool check_crcs);

}  // namespace tio
