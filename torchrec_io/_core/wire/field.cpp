#include "wire/field.h"

namespace tio::wire {
namespace {

bool skip_scalar(Cursor& cursor, std::uint32_t type) {
  std::uint64_t number = 0;
  Bytes bytes;
  switch (type) {
    case varint: return cursor.read_varint(number);
    case fixed64: return cursor.skip(8);
    case delimited: return cursor.read_delimited(bytes);
    case fixed32: return cursor.skip(4);
    default: return false;
  }
}

}  // namespace

bool skip_field(Cursor& cursor, std::uint32_t tag) {
  // Protobuf rejects groups nested deeper than 100 levels, so the open ones fit on the stack.
  constexpr int kMaxDepth = 100;
  std::uint32_t open[kMaxDepth];
  int depth = 0;
  while (true) {
    const std::uint32_t type = tag & 7;
    if (type == group) {
      if (depth == kMaxDepth) return false;
      open[depth++] = tag >> 3;
    } else if (type == end_group) {
      if (depth == 0 || open[--depth] != tag >> 3) return false;
    } else if (!skip_scalar(cursor, type)) {
      return false;
    }
    if (depth == 0) return true;
    if (!cursor.read_tag(tag)) return false;
  }
}

}  // namespace tio::wire
