// TF-Ranking's ExampleListWithContext: which bytes of a record are its context and its examples.
//
//   message ExampleListWithContext { repeated tf.Example examples = 1; tf.Example context = 2; }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "records/records.h"

namespace tio {

struct ListFailure {
  std::size_t record = 0;  // position in the batch
  std::size_t offset = 0;  // byte in the record
  std::string reason;
};

// The parts of some records. A part lies at a byte of its record and has a size.
struct ListParts {
  std::vector<std::int64_t> offsets;        // [records + 1]; which examples are a record's
  std::vector<std::int64_t> example_at;     // [examples]
  std::vector<std::int64_t> example_sizes;  // [examples]
  std::vector<std::int64_t> context_of;     // [contexts]; the record, ascending: one may have
                                            // several contexts, which protobuf merges, or none
  std::vector<std::int64_t> context_at;     // [contexts]
  std::vector<std::int64_t> context_sizes;  // [contexts]
  std::vector<ListFailure> failures;        // at most one a record, which then has no parts
};

// Nothing inside of the parts is looked at.
ListParts split_lists(const Records& records);

}  // namespace tio
