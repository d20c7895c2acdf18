// Code that the bindings of the parser share.
#pragma once

#include <vector>

#include "bindings/arrays.h"
#include "example/located_batch.h"

namespace tio {

// Offsets that the columns of a batch are written to.
struct ColumnTargets {
  std::vector<ColumnOffsets> columns;

  explicit ColumnTargets(std::size_t count) : columns(count) {}

  ColumnOffsets& at(std::size_t column) {
    if (column >= columns.size()) throw nb::index_error("the column does not exist");
    return columns[column];
  }
};

}  // namespace tio
