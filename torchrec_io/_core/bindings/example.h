// What the bindings of the parser share.
#pragma once

#include <vector>

#include "example/example.h"
#include "bindings/arrays.h"
#include "records/records.h"

namespace tio {

// What was located, and the records it was located in.
struct LocatedRecords {
  const Records* records;
  Located located;
};

inline std::vector<ColumnPlace> to_places(const Matrix<std::uint64_t>& places) {
  if (places.shape(1) != 4) throw nb::value_error("places must have four columns");
  std::vector<ColumnPlace> columns(places.shape(0));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::uint64_t* row = places.data() + 4 * i;
    columns[i] = {row[0], row[1], row[2], row[3]};
  }
  return columns;
}

inline constexpr const char* kBadPlaces = "a column lies outside the arena or is not aligned";

}  // namespace tio
