// Read plans and ranges, which several bindings share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/arrays.h"
#include "records/read_plan.h"

namespace tio {

// A ReadPlan together with the numbers of its records, as Python has them.
struct PythonReadPlan {
  std::shared_ptr<const ReadPlan> plan;
  nb::ndarray<nb::numpy, const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> numbers;
};

// Converts rows of an array [n, 3]; see Range.
inline std::vector<Range> to_ranges(const Matrix<std::int64_t>& rows) {
  if (rows.shape(1) != 3) throw nb::value_error("ranges must have three columns");
  std::vector<Range> ranges(rows.shape(0));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t* row = rows.data() + 3 * i;
    ranges[i] = {row[0], row[1], row[2]};
    if (row[0] < 0 || row[1] < 0) throw nb::value_error("ranges must not be negative");
  }
  return ranges;
}

}  // namespace tio
