// Splits TF-Ranking's ExampleListWithContext into its context and its examples.
#pragma once

#include <cstdint>
#include <vector>

#include "example/parser.h"
#include "records/records.h"

namespace tio {

// Locations of the parts of some records: the offset of each part in its record, and its size.
struct ListParts {
  std::vector<std::int64_t> example_splits;   // [records + 1]; examples of record i: [i] to [i + 1]
  std::vector<std::int64_t> example_offsets;  // [examples]
  std::vector<std::int64_t> example_sizes;    // [examples]
  // [contexts]; the record of each context, ascending. A record may have no context, or several,
  // which protobuf merges.
  std::vector<std::int64_t> context_records;
  std::vector<std::int64_t> context_offsets;  // [contexts]
  std::vector<std::int64_t> context_sizes;    // [contexts]
  std::vector<Failure> failures;              // at most one per record, which then has no parts
};

// Locates the parts of records, without checking their content.
ListParts split_lists(const Records& records);

}  // namespace tio
