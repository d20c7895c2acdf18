// Protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as tf.train.Example
// uses it.
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

constexpr std::uint32_t tag(std::uint32_t field, Type type) { return field << 3 | type; }

// Skips the field whose tag was just read, groups included. False if it is cut short or illegal.
bool skip_field(Cursor& cursor, std::uint32_t tag);

}  // namespace tio::wire
