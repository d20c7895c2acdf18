// The frames of some records, which an IndexSet finds step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "records/ranges.h"
#include "records/read_plan.h"

namespace tio {

// Locations of some records, in the requested order.
struct FrameLocations {
  std::vector<std::int64_t> files;
  std::vector<std::int64_t> starts;  // of the frames, in the stream of the file
  std::vector<std::int64_t> ends;
};

// Pages of an index file that must be read before a lookup can go on.
struct MissingPages {
  std::int64_t file = 0;
  std::vector<std::size_t> pages;  // ascending
  std::vector<Range> ranges;       // to read one page after another into a buffer
  std::int64_t bytes = 0;          // size of that buffer
};

struct FrameLookup {
  struct Frame {
    std::size_t position = 0;  // among the requested numbers
    std::size_t file = 0;
    std::int64_t record = 0;  // number in the file
    std::int64_t start = 0;
    std::int64_t end = -1;  // -1: not found yet
  };

  explicit FrameLookup(std::span<const std::int64_t> requested)
      : numbers(requested.begin(), requested.end()) {}

  // Whether all frames were found, which the other functions require.
  bool is_found() const;

  FrameLocations locations() const;

  // Plans the reads that fetch the records. Frames with at most `gap` bytes between them are read
  // at once. Returns nothing if their sizes are too large to add.
  std::optional<ReadPlan> plan(std::int64_t gap) const;

  std::vector<std::int64_t> numbers;
  std::vector<Frame> frames;  // in the order of their numbers
  // What is needed before the lookup can go on; see IndexSet::find.
  std::vector<std::int64_t> unchecked_files;
  std::vector<MissingPages> missing;
  std::size_t missing_count = 0;  // pages in `missing`
  std::optional<std::int64_t> damaged_file;
};

}  // namespace tio
