// Iteration over the fields of a message that reports the first invalid field.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/bytes.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio {

inline constexpr const char* kInvalidVarint = "a varint is truncated or longer than 10 bytes";

// Returns the reason why `wire::skip_field` rejected a field without a length.
inline const char* skip_failure(std::uint32_t tag) {
  switch (tag & 7) {
    case wire::varint: return kInvalidVarint;
    case wire::fixed32:
    case wire::fixed64: return "a fixed-size number is truncated";
    case wire::group: return "a group is invalid, not closed, or nested deeper than 100 levels";
    case wire::end_group: return "a group ends without a matching start";
    default: return "a field has an invalid wire type";
  }
}

// Calls `visit(tag, content)` for each field with a length, and stops when it returns false. If the
// message is invalid, calls `fail(at, reason)` and returns its result.
template <class Visit, class Fail>
bool walk_or_fail(Bytes message, Visit&& visit, Fail&& fail) {
  Cursor cursor(message);
  while (!cursor.done()) {
    const std::byte* const at = message.data() + cursor.position();
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) {
      return fail(at, cursor.done() ? "a field tag is truncated"
                                    : "a field tag has an invalid field number");
    }
    Bytes content;
    if ((tag & 7) == wire::delimited) {
      if (!cursor.read_delimited(content)) {
        return fail(at, "the length of a field extends past the end of its message");
      }
      if (!visit(tag, content)) return false;
    } else if (!wire::skip_field(cursor, tag)) {
      return fail(at, skip_failure(tag));
    }
  }
  return true;
}

}  // namespace tio
