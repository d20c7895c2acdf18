// A batch after the first pass, and the loading of several batches at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "example/parser.h"
#include "records/read_plan.h"

namespace tio {

// The result of the first pass together with its parser and records, which it shares. It stays
// valid whatever happens to other references to them.
class LocatedBatch {
 public:
  // Runs the first pass.
  LocatedBatch(std::shared_ptr<const ExampleParser> parser, std::shared_ptr<const Records> records)
      : parser_(std::move(parser)),
        records_(std::move(records)),
        located_(parser_->locate(*records_)) {}

  const ExampleParser& parser() const { return *parser_; }
  const std::shared_ptr<const Records>& records() const { return records_; }
  const LocateResult& located() const { return located_; }
  bool has_failed() const { return !located_.failures.empty(); }

  bool fits(std::span<const ColumnOffsets> columns, MutableBytes arena) const {
    return parser_->fits(located_, columns, arena);
  }

  // Runs the second pass, for columns that fit. The first pass must not have failed.
  std::vector<Failure> fill(std::span<const ColumnOffsets> columns, MutableBytes arena) const {
    return parser_->fill(*records_, located_, columns, arena);
  }

 private:
  std::shared_ptr<const ExampleParser> parser_;
  std::shared_ptr<const Records> records_;
  LocateResult located_;
};

// The memory that the columns of a batch are written to.
struct BatchTarget {
  std::span<const ColumnOffsets> columns;
  MutableBytes arena;
};

// How the frames of a batch are fetched: from files, or from memory. The buffer has at
// least plan->buffer_bytes, and `records` are the records of the plan in that buffer. Without a
// plan, the records are in memory already, and have no frames.
struct BatchReads {
  // Descriptors of the plan's files; nothing if the frames are in the buffer.
  std::optional<std::vector<int>> descriptors;
  std::shared_ptr<const ReadPlan> plan;
  MutableBytes buffer;
  Owner owner;  // of the buffer
  std::shared_ptr<const Records> records;
};

// The batches before the first that cannot be read or parsed.
struct FilledBatches {
  std::size_t count = 0;
  std::vector<Failure> failures;  // records of that first one; none if it cannot be read
};

// The functions below stop at the first batch that cannot be read or parsed.

// Reads, checks and locates batches.
std::vector<LocatedBatch> load_batches(const std::shared_ptr<const ExampleParser>& parser,
                                       std::span<const BatchReads* const> batches, bool check_crcs);

// Reads, checks and parses batches of a parser that is fixed. Batches may share a buffer. Returns
// nothing if the columns of a batch do not fit.
std::optional<FilledBatches> load_fixed_batches(const ExampleParser& parser,
                                                std::span<const BatchReads* const> batches,
                                                std::span<const BatchTarget> targets,
                                                bool check_crcs);

// Fills the columns of located batches, which fit.
FilledBatches fill_batches(std::span<const LocatedBatch* const> batches,
                           std::span<const BatchTarget> targets);

}  // namespace tio
