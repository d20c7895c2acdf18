// Values that the caller reads itself, instead of or besides a column.
#pragma once

#include <cstdint>
#include <vector>

#include "example/parser.h"

namespace tio {

// Division of the values of a feature into units. A unit is a record, or a step of a feature
// list. Unit i has the values from number values[i] up to values[i + 1].
struct UnitOffsets {
  std::vector<std::int64_t> values{0};   // [units + 1]
  std::vector<std::int64_t> records{0};  // [records + 1]; the number of each record's first unit
};

// Locations of bytes values in their records.
struct ByteSpans {
  std::vector<std::int64_t> offsets;  // [values]
  std::vector<std::int64_t> sizes;    // [values]
  UnitOffsets units;
};

struct StoredInts {
  std::vector<std::int64_t> values;
  UnitOffsets units;
  std::vector<Failure> failures;  // records with invalid values
};

// Counts the values of a feature.
UnitOffsets count_units(const ExampleParser& parser, const Records& records,
                        const LocateResult& located, std::size_t feature);

// Locates the values of a feature of bytes.
ByteSpans find_spans(const ExampleParser& parser, const Records& records,
                     const LocateResult& located, std::size_t feature);

// Decodes the values of an on_request feature of int64.
StoredInts decode_ints(const ExampleParser& parser, const Records& records,
                       const LocateResult& located, std::size_t feature);

}  // namespace tio
