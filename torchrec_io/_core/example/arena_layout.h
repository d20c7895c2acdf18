// The layout of the columns of a batch in its arena, the buffer that holds all of them.
#pragma once

#include <cstdint>
#include <span>

#include "example/feature_spec.h"
#include "wire/bytes.h"

namespace tio {

// The room that a column needs.
struct ColumnSize {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;    // total size of bytes values
  std::uint64_t steps = 0;    // of feature lists, over all records
  std::uint64_t longest = 0;  // number of parts (steps) of the record that has the most
};

// Offsets of the parts of a column in the arena, in bytes. The column type decides which are used.
struct ColumnOffsets {
  std::uint64_t rows = 0;    // ragged: row splits [records + 1]; padded: int64 lengths [records]
  std::uint64_t steps = 0;   // ragged feature lists: splits of the steps [steps + 1]
  std::uint64_t values = 0;  // bytes: int64 offsets of the values in the data [values + 1]
  std::uint64_t data = 0;
};

// Returns whether every part of every column lies inside the arena and is aligned.
bool is_inside(std::span<const FeatureSpec> specs, std::span<const ColumnSize> sizes,
               std::uint64_t records, std::span<const ColumnOffsets> columns, MutableBytes arena);

}  // namespace tio
