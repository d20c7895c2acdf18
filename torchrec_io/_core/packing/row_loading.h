// Loading of documents straight into packed rows, several batches at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "example/located_batch.h"
#include "packing/row_writer.h"

namespace tio {

// The memory that the rows of a batch are written to.
struct RowsTarget {
  const RowWriter* writer;
  const RowFormat* format;
  MutableBytes arena;
  BatchTarget others;  // the columns that are not packed
};

// Reads, checks and parses documents, and writes their rows. Batches may share a buffer. Stops at
// the first batch that cannot be read or parsed, or whose documents are not as long as planned.
// Returns the number of loaded batches; nothing if the rows of a batch do not fit.
std::optional<std::size_t> load_rows(const std::shared_ptr<const ExampleParser>& parser,
                                     std::span<const BatchReads* const> batches,
                                     std::span<const RowsTarget> targets, bool check_crcs);

}  // namespace tio
