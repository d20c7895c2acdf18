// Explains why the parser rejected a record.
#pragma once

#include <optional>

#include "wire/bytes.h"

namespace tio {

class ExampleParser;

// The first error in a record.
struct Fault {
  std::size_t offset = 0;           // byte in the record
  std::optional<std::size_t> slot;  // the stored feature that contains it, if the parser reads it
  const char* reason = "";
};

// Returns the first error in a record, or nothing if the record is valid. Checks what the parser
// reads: the content of a feature only if a column is made of it.
//
// This is a second implementation of the same grammar, and slower. The parser itself therefore need
// not keep track of positions.
std::optional<Fault> explain(const ExampleParser& parser, Bytes record);

}  // namespace tio
