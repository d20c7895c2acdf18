// Descriptions of the columns that a parser makes of stored features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "example/feature.h"

namespace tio {

// Element types of columns. Stored values are int64, float or bytes; all others are casts of these.
enum class Dtype : std::uint8_t {
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

// Returns the size of an element; 1 for bytes.
std::size_t element_bytes(Dtype dtype);
// Returns the kind that a Feature stores values of a dtype as.
Kind stored_kind(Dtype dtype);

// Rules that turn the values of a feature, or of each step of a feature list, into a column.
enum class ColumnType : std::uint8_t {
  fixed,          // exactly `count` values per record
  ragged,         // any number of values per record or step, with row splits
  flat,           // any number of values per record or step, without row splits
  padded,         // parts (steps) of exactly `count` values, padded to the longest of the batch
  raw_bytes,      // one bytes value of exactly `count` bytes per record, copied
  resized_bytes,  // one bytes value per record, truncated or zero-padded to `count` bytes
  span,           // one bytes value per record; no column; find_spans locates it
  on_request      // any number of int64 or bytes values; no column; decode_ints or find_spans
                  // return them
};

// One column. Several columns may be made of one stored feature.
struct FeatureSpec {
  std::string key;  // of the stored feature
  bool in_lists = false;
  Dtype dtype = Dtype::int64;
  ColumnType column_type = ColumnType::fixed;
  std::uint64_t count = 1;
  bool is_optional = false;   // records may lack it; ragged, flat and on_request ones always may
  bool int32_splits = false;  // row splits are int32 instead of int64
  // Whether the second pass writes the column. If not, the values are located, and others read
  // them: they are counted when they are decoded.
  bool has_column = true;
  // For a fixed column: the `count` elements of records without the feature. For a padded column:
  // one element of padding. Numbers are in the format of the column; bytes values are joined, and
  // default_sizes has the size of each.
  std::vector<std::byte> default_data;
  std::vector<std::uint64_t> default_sizes;

  // Whether this is a column of numbers with any number of values per record, without steps of
  // several values.
  bool is_list_of_numbers() const {
    const bool is_list = (column_type == ColumnType::ragged && !in_lists) ||
                         (column_type == ColumnType::padded && count == 1);
    return is_list && dtype != Dtype::bytes;
  }

  // Whether this is a column of bytes that are copied, the same number for each record.
  bool is_copied() const {
    const bool is_bytes =
        column_type == ColumnType::raw_bytes || column_type == ColumnType::resized_bytes;
    return is_bytes && has_column;
  }

  // Returns why this spec is invalid, or null if it is valid.
  const char* fault() const;
};

}  // namespace tio
