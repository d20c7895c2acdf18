// Parses batches of serialized tf.train.Example and tf.train.SequenceExample into columns, in two
// passes: the first locates all values, the second fills the columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "example/arena_layout.h"
#include "example/feature.h"
#include "example/feature_spec.h"
#include "records/records.h"
#include "wire/bytes.h"

namespace tio {

// The limit of protobuf, and so of TensorFlow.
inline constexpr std::uint64_t kMaxRecordBytes = 0x7fffffffU;

inline constexpr const char* kInvalidRecord = "the record is not a valid Example";

// A record that cannot be parsed.
struct Failure {
  std::size_t record = 0;               // position in the batch
  std::optional<std::size_t> feature;   // position in the specs; none: the record as a whole
  std::optional<std::uint64_t> offset;  // byte in the record; none: something is missing
  std::string reason;
};

// The result of the first pass over a batch.
struct LocateResult {
  std::size_t records = 0;
  std::size_t slots = 0;            // stored features; several columns may share one
  std::vector<Location> locations;  // [records][slots]
  std::vector<ColumnSize> sizes;    // [features]
  std::vector<Failure> failures;    // at most one per record, in the order of the records

  const Location& at(std::size_t record, std::size_t slot) const {
    return locations[record * slots + slot];
  }
};

// The most common location of a feature of numbers, which needs no further check.
struct PlainLocation {
  bool possible = false;
  Kind kind = Kind::none;
  // A varint takes at least one byte. Varints are counted while they are decoded.
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;

  bool matches(const Location& at) const {
    return possible && at.form == Form::single && at.kind == kind && at.size >= min_bytes &&
           at.size <= max_bytes;
  }
};

class RecordLocator;

class ExampleParser {
 public:
  // With `sequences`, records are SequenceExamples: their feature lists are read even if no column
  // is made of one.
  explicit ExampleParser(std::vector<FeatureSpec> specs, bool sequences = false);
  ExampleParser(const ExampleParser&) = delete;  // the maps refer to keys in specs_
  ExampleParser& operator=(const ExampleParser&) = delete;

  const std::vector<FeatureSpec>& specs() const { return specs_; }
  std::size_t slots() const { return slots_; }
  std::size_t slot(std::size_t feature) const { return slot_of_[feature]; }

  // Returns the slot of a stored feature, or -1 if no column is made of it.
  int find(Bytes key, bool in_lists) const;
  bool has_lists() const { return sequences_ || !lists_.empty(); }

  // Whether each row of all columns has a size that does not depend on the data.
  bool is_fixed() const;

  // First pass. Reports invalid records in `failures` and locates all others.
  LocateResult locate(const Records& records) const;

  // Whether the columns of a located batch fit where the second pass is asked to write them.
  bool fits(const LocateResult& located, std::span<const ColumnOffsets> columns,
            MutableBytes arena) const {
    return is_inside(specs_, located.sizes, located.records, columns, arena);
  }

  // Second pass, for the same records and columns that fit: writes every column into the arena. The
  // first pass must not have failed. Returns the failures that decoding finds; the content of the
  // arena is undefined then.
  std::vector<Failure> fill(const Records& records, const LocateResult& located,
                            std::span<const ColumnOffsets> columns, MutableBytes arena) const;

  // Both passes at once, if `is_fixed`: a few records at a time, so that the locations stay in the
  // fastest cache and take no memory. Returns false if the columns do not fit.
  bool parse_fixed(const Records& records, std::span<const ColumnOffsets> columns,
                   MutableBytes arena, std::vector<Failure>& failures) const;

  // Explains why a record is invalid, which was found while reading `feature`, if any. The first
  // error may lie in another feature.
  Failure explain_failure(std::size_t record, Bytes bytes,
                          std::optional<std::size_t> feature) const;

  // Does the same, but returns nothing for a record that is a valid Example.
  std::optional<Failure> find_invalid(std::size_t record, Bytes bytes,
                                      std::optional<std::size_t> feature) const;

 private:
  // Whether each row of a column has a size that does not depend on the data.
  bool has_fixed_rows(std::size_t feature) const;

  // How rows of locations are numbered: by the record, or by the position in the tile.
  enum class Rows { of_records, of_tile };

  void locate_some(RecordLocator& locator, const Records& records,
                   std::span<const std::size_t> which, Rows rows, LocateResult& located) const;
  // Parses records that are encoded as predicted and lack no feature, directly into their columns.
  // Stops before the first other record, and returns the number of parsed records.
  std::size_t parse_predicted(const RecordLocator& locator, const Records& records,
                              std::span<const std::size_t> which,
                              std::span<const ColumnOffsets> columns, MutableBytes arena) const;
  void fill_fixed(const Records& records, const LocateResult& located,
                  std::span<const std::size_t> which, Rows rows,
                  std::span<const ColumnOffsets> columns, MutableBytes arena,
                  std::vector<Failure>& failures) const;

  std::vector<FeatureSpec> specs_;
  std::vector<PlainLocation> plain_;  // of each feature
  std::vector<std::size_t> slot_of_;  // of each feature
  // Features of one number per record that is stored without a cast.
  enum class Scalar : std::uint8_t { none, int64, float32 };
  std::vector<Scalar> scalar_;           // of each feature
  std::vector<std::size_t> feature_of_;  // of each slot: its last feature
  std::unordered_map<std::string_view, int> context_;
  std::unordered_map<std::string_view, int> lists_;
  std::size_t slots_ = 0;
  bool sequences_ = false;
};

}  // namespace tio
