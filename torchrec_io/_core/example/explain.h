// Says what is wrong with a record that the parser refused, and where.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/bytes.h"

namespace tio {

class ExampleParser;

struct Fault {
  std::size_t offset = 0;  // in the record
  int slot = -1;           // of the stored feature it lies in; -1: in none that is asked for
  const char* reason = "";
};

// The first thing in a record that is not legal, going as deep as the parser does: into the
// features that it asks for. Nothing if all is legal.
//
// Slower than parsing and a second walk over the same grammar, so that the parser itself need not
// carry positions along.
std::optional<Fault> explain(const ExampleParser& parser, Bytes record);

}  // namespace tio
