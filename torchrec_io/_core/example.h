// Parses batches of serialized tf.train.Example into columns, in two passes: locate, then fill.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytes.h"
#include "feature.h"

namespace tio {

// Element types of a column. Numbers are the ones that Python passes.
enum class Element : std::uint8_t {
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean,  // stored as int64
  float32,
  float64,
  float16,
  bfloat16,  // stored as float
  bytes
};

std::size_t element_bytes(Element element);
Kind stored_kind(Element element);

enum class Shape : std::uint8_t {
  fixed,   // exactly `count` values a record
  ragged,  // any number of values a record
  raw,     // one bytes value of exactly `count` bytes a record, copied as it is
  span     // one bytes value a record; no column: the caller asks where it lies
};

struct FeatureSpec {
  std::string name;
  Element element = Element::int64;
  Shape shape = Shape::fixed;
  std::uint64_t count = 1;
  bool has_default = false;
  // `count` elements as the column stores them; for bytes: the values joined, and each one's size.
  std::vector<std::byte> default_data;
  std::vector<std::uint64_t> default_sizes;
};

// What the commonest location of a feature of numbers looks like: one that needs no further check.
struct PlainLocation {
  bool possible = false;
  Kind kind = Kind::none;
  // Varints take a byte a value at least and are counted while they are decoded.
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = 0;

  bool matches(const Location& at) const {
    return possible && at.form == Form::single && at.kind == kind && at.size >= least_bytes &&
           at.size <= most_bytes;
  }
};

struct Failure {
  std::size_t record = 0;    // position in the batch
  int feature = -1;          // position in the schema; -1: the record as a whole
  std::uint64_t offset = 0;  // in the buffer
  std::string reason;
};

// What the second pass has to know about a batch: where each value lies and how much room it needs.
struct Located {
  std::size_t records = 0;
  std::size_t buffer_bytes = 0;
  std::vector<Location> locations;  // [records][features]
  std::vector<ValueCount> totals;   // [features]
  std::vector<Failure> failures;    // at most one a record
};

// Where a column's parts go in the arena, in bytes. Which ones are used depends on the shape:
// row offsets for ragged; value offsets for bytes; data for all.
struct ColumnPlace {
  std::uint64_t row_offsets = 0;    // int64 [records + 1]
  std::uint64_t value_offsets = 0;  // int64 [values + 1]
  std::uint64_t data = 0;
};

class ExampleParser {
 public:
  explicit ExampleParser(std::vector<FeatureSpec> specs);
  ExampleParser(const ExampleParser&) = delete;  // by_name_ looks into specs_
  ExampleParser& operator=(const ExampleParser&) = delete;

  const std::vector<FeatureSpec>& specs() const { return specs_; }

  // First pass. Record i is buffer[starts[i], starts[i] + sizes[i]). Damaged records are listed in
  // `failures`; the others are located all the same.
  Located locate(Bytes buffer, std::span<const std::int64_t> starts,
                 std::span<const std::int64_t> sizes) const;

  // Whether `fill` may write there: every part of every column lies inside the arena and is
  // aligned.
  bool places_fit(const Located& located, std::span<const ColumnPlace> places,
                  MutableBytes arena) const;

  // Second pass, on the same buffer and with places that fit: writes every column into the arena.
  // Only for a batch without failures; returns those that show when values are decoded (the arena
  // is then of no use).
  std::vector<Failure> fill(Bytes buffer, const Located& located,
                            std::span<const ColumnPlace> places, MutableBytes arena) const;

 private:
  friend class RecordLocator;

  std::vector<FeatureSpec> specs_;
  std::vector<PlainLocation> plain_;  // of each feature
  std::unordered_map<std::string_view, int> by_name_;
};

}  // namespace tio
