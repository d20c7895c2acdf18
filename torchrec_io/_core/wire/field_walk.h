// Walks the fields of a message and says what is not legal in it, and where.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/bytes.h"
#include "wire/cursor.h"
#include "wire/wire.h"

namespace tio {

// Why `wire::skip_field` refused a field that has no length.
inline const char* why_not_skipped(std::uint32_t tag) {
  switch (tag & 7) {
    case wire::varint: return "a number is cut short or has over 10 bytes";
    case wire::fixed32:
    case wire::fixed64: return "a number is cut short";
    case wire::group: return "a group is not legal, not closed, or over 100 deep";
    case wire::end_group: return "a group ends that was not begun";
    default: return "a field has a wire type that does not exist";
  }
}

// Calls `visit(tag, content)` for each field of a message that has a length, until it gives false;
// `fail(at, reason)` where the message is not legal, whose result is then the walk's.
template <class Visit, class Fail>
bool walk_or_fail(Bytes message, Visit&& visit, Fail&& fail) {
  Cursor cursor(message);
  while (!cursor.done()) {
    const std::byte* const at = message.data() + cursor.position();
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) {
      return fail(at, cursor.done() ? "a field's tag is cut short"
                                    : "a field's tag is no legal field number");
    }
    Bytes content;
    if ((tag & 7) == wire::delimited) {
      if (!cursor.read_delimited(content)) {
        return fail(at, "a field's length reaches past the end of its message");
      }
      if (!visit(tag, content)) return false;
    } else if (!wire::skip_field(cursor, tag)) {
      return fail(at, why_not_skipped(tag));
    }
  }
  return true;
}

}  // namespace tio
