// Parses batches of serialized tf.train.Example and tf.train.SequenceExample into columns, in two
// passes: locate, then fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire/bytes.h"
#include "example/feature.h"
#include "records/records.h"

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

// What is made of a feature's values; of a feature list's, step by step. Numbers are the ones that
// Python passes.
enum class Shape : std::uint8_t {
  fixed,    // exactly `count` values a record
  ragged,   // any number of values a record, or a step
  flat,     // the same, without offsets: the caller asks how many values there are
  padded,   // parts (steps) of exactly `count` values; padded to the most in the batch
  raw,      // one bytes value of exactly `count` bytes a record, copied as it is
  resized,  // one bytes value a record, cut to `count` bytes or filled up with zeros
  span,     // one bytes value a record; no column: the caller asks where it lies
  aside     // any number of int64 or bytes values; no column: the caller asks for them
};

// One column. Several may be made of one stored feature.
struct FeatureSpec {
  std::string key;  // of the stored feature
  bool in_lists = false;
  Element element = Element::int64;
  Shape shape = Shape::fixed;
  std::uint64_t count = 1;
  bool optional = false;       // whether a record may lack it; ragged ones always may
  bool narrow_splits = false;  // whether offsets of rows are int32
  // What records get that lack a fixed feature: `count` elements as the column stores them. What a
  // padded one is padded with: one element. For bytes: the values joined, and each one's size.
  std::vector<std::byte> default_data;
  std::vector<std::uint64_t> default_sizes;

  // What makes this no sensible spec; null if nothing does.
  const char* fault() const;
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

inline constexpr std::uint64_t kLargestRecord = 0x7fffffffU;  // protobuf's, and TensorFlow's

struct Failure {
  std::size_t record = 0;    // position in the batch
  int feature = -1;          // position in the specs; -1: the record as a whole
  std::int64_t offset = -1;  // byte in the record; -1: nowhere, as it is missing
  std::string reason;
};

// How much room a column needs.
struct ColumnSize {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;    // of bytes values, joined
  std::uint64_t steps = 0;    // of feature lists, over all records
  std::uint64_t longest = 0;  // parts of the record that has most of them
};

// What the second pass has to know about a batch: where each value lies and how much room it needs.
struct Located {
  std::size_t records = 0;
  std::size_t slots = 0;
  std::vector<Location> locations;  // [records][slots]
  std::vector<ColumnSize> sizes;    // [features]
  std::vector<Failure> failures;    // at most one a record

  const Location& at(std::size_t record, std::size_t slot) const {
    return locations[record * slots + slot];
  }
};

// Where a column's parts go in the arena, in bytes. Which ones are used depends on the shape.
struct ColumnPlace {
  std::uint64_t rows = 0;    // ragged: offsets [records + 1]; padded: int64 lengths [records]
  std::uint64_t steps = 0;   // ragged feature lists: offsets [steps + 1]
  std::uint64_t values = 0;  // bytes: int64 offsets [values + 1]
  std::uint64_t data = 0;
};

// Integers of a feature that has no column: unit i is values[offsets[i], offsets[i + 1]).
struct Integers {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> offsets;  // [units + 1]; a unit is a record, or a step
  std::vector<std::int64_t> rows;     // [records + 1]; where each record's units start
  std::vector<std::size_t> damaged;   // records whose values are not legal
  std::int64_t added = 0;             // values of the unit at hand
};

// Where the bytes values of a feature that has no column lie: value i is the part of so many bytes
// of its record. Unit i has the values from starts[i] on, to starts[i + 1].
struct Spans {
  std::vector<std::int64_t> offsets;  // [values]
  std::vector<std::int64_t> sizes;    // [values]
  std::vector<std::int64_t> starts;   // [units + 1]; a unit is a record, or a step
  std::vector<std::int64_t> rows;     // [records + 1]; where each record's units start
};

class RecordLocator;

class ExampleParser {
 public:
  // `sequences`: whether records are SequenceExamples, of which feature lists are looked into even
  // if none is asked for. They are if one is.
  explicit ExampleParser(std::vector<FeatureSpec> specs, bool sequences = false);
  ExampleParser(const ExampleParser&) = delete;  // the maps look into specs_
  ExampleParser& operator=(const ExampleParser&) = delete;

  const std::vector<FeatureSpec>& specs() const { return specs_; }
  std::size_t slots() const { return slots_; }
  std::size_t slot(std::size_t feature) const { return slot_of_[feature]; }

  // The slot of a stored feature; -1 if nobody asks for it.
  int find(Bytes key, bool in_lists) const;
  bool has_lists() const { return sequences_ || !lists_.empty(); }

  // Whether all columns are numbers, of a size that does not depend on the data.
  bool is_fixed() const;

  // First pass. Damaged records are listed in `failures`; the others are located all the same.
  Located locate(const Records& records) const;

  // Whether `fill` may write there: every part of every column lies inside the arena and is
  // aligned.
  bool places_fit(const Located& located, std::span<const ColumnPlace> places,
                  MutableBytes arena) const;

  // Second pass, on the same records and with places that fit: writes every column into the arena.
  // Only for a batch without failures; returns those that show when values are decoded (the arena
  // is then of no use).
  std::vector<Failure> fill(const Records& records, const Located& located,
                            std::span<const ColumnPlace> places, MutableBytes arena) const;

  // Both passes at once, where `is_fixed`: some records at a time, so that locations stay in the
  // fastest cache and take no memory. False if the places do not fit.
  bool parse_fixed(const Records& records, std::span<const ColumnPlace> places, MutableBytes arena,
                   std::vector<Failure>& failures) const;

  // What to tell of a record that turned out not to be legal while `feature` was read (-1: none
  // was): the first thing wrong with it, which may lie in another feature. Nothing if all is legal.
  std::optional<Failure> illegal(std::size_t record, Bytes bytes, int feature) const;

  // How many values a feature has in each unit: `integers` without the values.
  Integers counts(const Records& records, const Located& located, std::size_t feature) const;

  // Where the values of a `span` feature, or an `aside` one of bytes, lie.
  Spans spans(const Records& records, const Located& located, std::size_t feature) const;

  // The values of an `aside` feature of int64; adds to `failures` where they are not legal.
  Integers integers(const Records& records, const Located& located, std::size_t feature,
                    std::vector<Failure>& failures) const;

 private:
  // Calls `visit(record, bytes, location)` for each unit of a feature; false where it is not legal.
  template <class Visit>
  Integers walk_units(const Records& records, const Located& located, std::size_t feature,
                      Visit&& visit) const;

  // Whether row i of the locations is of record i, or of the i-th record at hand.
  enum class Rows { of_records, of_tile };

  void locate_some(RecordLocator& locator, const Records& records,
                   std::span<const std::size_t> which, Rows rows, Located& located) const;
  // Parses records that are spelled as foreseen and lack nothing, straight into their columns, up
  // to the first that is not. Returns how many.
  std::size_t parse_foreseen(const RecordLocator& locator, const Records& records,
                             std::span<const std::size_t> which,
                             std::span<const ColumnPlace> places, MutableBytes arena) const;
  void fill_fixed(const Records& records, const Located& located,
                  std::span<const std::size_t> which, Rows rows,
                  std::span<const ColumnPlace> places, MutableBytes arena,
                  std::vector<Failure>& failures) const;

  std::vector<FeatureSpec> specs_;
  std::vector<PlainLocation> plain_;  // of each feature
  std::vector<std::size_t> slot_of_;  // of each feature
  // One number a record, that is stored as it is.
  enum class Scalar : std::uint8_t { none, int64, float32 };
  std::vector<Scalar> scalar_;           // of each feature
  std::vector<std::size_t> feature_of_;  // of each slot: its last feature
  std::unordered_map<std::string_view, int> context_;
  std::unordered_map<std::string_view, int> lists_;
  std::size_t slots_ = 0;
  bool sequences_ = false;
};

}  // namespace tio
