// What the bindings of reads share: checks of their arguments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "wire/bytes.h"
#include "bindings/arrays.h"
#include "records/ranges.h"

namespace tio {

// Rows of (file offset, size, place in the buffer).
inline std::vector<Range> to_ranges(const Matrix<std::int64_t>& rows) {
  if (rows.shape(1) != 3) throw nb::value_error("ranges must have three columns");
  std::vector<Range> ranges(rows.shape(0));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t* row = rows.data() + 3 * i;
    ranges[i] = {row[0], row[1], row[2]};
    if (row[0] < 0 || row[1] < 0) throw nb::value_error("a range is negative");
  }
  return ranges;
}

inline bool lies_inside(std::int64_t at, std::int64_t size, std::size_t whole) {
  const auto end = static_cast<std::int64_t>(whole);
  return at >= 0 && at <= end && size <= end - at;
}

inline void check_places(const std::vector<Range>& ranges, MutableBytes buffer) {
  for (const Range& range : ranges) {
    if (!lies_inside(range.place, range.size, buffer.size())) {
      throw nb::value_error("a range lies outside the buffer");
    }
  }
}

inline void check_cuts(const std::vector<std::int64_t>& cuts, std::size_t files,
                       std::size_t ranges) {
  if (cuts.size() != files + 1) throw nb::value_error("there must be a cut more than files");
  if (cuts.front() < 0 || cuts.back() > static_cast<std::int64_t>(ranges) ||
      !std::ranges::is_sorted(cuts)) {
    throw nb::value_error("the cuts must ascend, and lie among the ranges");
  }
}

}  // namespace tio
