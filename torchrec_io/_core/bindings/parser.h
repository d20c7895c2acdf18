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

inline void check_fits(bool fits) {
  if (!fits) throw nb::value_error("a column lies outside the arena or is not aligned");
}

// Checks that the second pass can run.
inline void check_fillable(const LocatedBatch& batch, const ColumnTargets& targets,
                           MutableBytes arena) {
  if (batch.has_failed()) throw nb::value_error("the batch has failures");
  check_fits(batch.fits(targets.columns, arena));
}

}  // namespace tio
