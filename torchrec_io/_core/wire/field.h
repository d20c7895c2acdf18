// Fields in protobuf's wire format (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>

#include "wire/cursor.h"

namespace tio::wire {

enum Type : std::uint32_t {
  varint = 0,
  fixed64 = 1,
  delimited = 2,
  group = 3,
  end_group = 4,
  fixed32 = 5
};

// The field number and wire type as they are stored before each field.
constexpr std::uint32_t tag(std::uint32_t field, Type type) { return field << 3 | type; }

// Skips the content of the field whose tag was just read. A group is skipped up to its end.
// Returns false if the field is truncated or invalid.
bool skip_field(Cursor& cursor, std::uint32_t tag);

// Calls `visit(tag, cursor)` for each field of a message, which reads or skips its content. Stops
// when it returns false.
template <class Visit>
bool walk_tags(Bytes message, Visit&& visit) {
  Cursor cursor(message);
  std::uint32_t tag = 0;
  while (!cursor.done()) {
    if (!cursor.read_tag(tag) || !visit(tag, cursor)) return false;
  }
  return true;
}

}  // namespace tio::wire
