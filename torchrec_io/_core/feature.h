// One tf.train.Feature inside a record: where it lies, and how its values are visited.
#pragma once

#include <cstdint>

#include "bytes.h"
#include "cursor.h"
#include "varint.h"
#include "wire.h"

namespace tio {

// The numbers are the field numbers of Feature's oneof.
enum class Kind : std::uint8_t { none = 0, bytes = 1, floats = 2, ints = 3 };

const char* kind_name(Kind kind);

enum class Form : std::uint8_t {
  missing,  // no such feature, or a Feature with no kind set: TensorFlow treats them alike
  empty,    // a list without values
  single,   // one packed chunk, or one bytes value: the location is that payload
  entry     // anything else legal: the location is the whole map entry, to be walked
};

// Where a feature's values lie in a buffer. 16 bytes: a batch has one for each record and feature.
struct Location {
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  Form form = Form::missing;
  Kind kind = Kind::none;

  Bytes of(Bytes buffer) const { return buffer.subspan(offset, size); }
};

namespace feature_detail {

constexpr std::uint32_t kKeyTag = wire::tag(1, wire::delimited);
constexpr std::uint32_t kValueTag = wire::tag(2, wire::delimited);
constexpr std::uint32_t kRepeatedTag = wire::tag(1, wire::delimited);

inline Kind kind_of_tag(std::uint32_t tag) {
  const std::uint32_t field = tag >> 3;
  return (tag & 7) == wire::delimited && field <= 3 ? static_cast<Kind>(field) : Kind::none;
}

// The tag of a list's values where they are not packed; bytes never are.
inline std::uint32_t unpacked_tag(Kind kind) {
  if (kind == Kind::ints) return wire::tag(1, wire::varint);
  if (kind == Kind::floats) return wire::tag(1, wire::fixed32);
  return kRepeatedTag;
}

// Calls `visit(payload)` for each chunk of a list: a packed run, one unpacked number, or one bytes
// value.
template <class Visit>
bool walk_list(Bytes list, Kind kind, Visit&& visit) {
  Cursor cursor(list);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) return false;
    Bytes payload;
    if (tag == kRepeatedTag) {
      if (!cursor.read_delimited(payload)) return false;
    } else if (tag == unpacked_tag(kind)) {
      const std::size_t from = cursor.position();
      if (!wire::skip_field(cursor, tag)) return false;
      payload = list.subspan(from, cursor.position() - from);
    } else {
      if (!wire::skip_field(cursor, tag)) return false;
      continue;
    }
    if (!visit(payload)) return false;
  }
  return true;
}

// Calls `visit(kind, list)` for each list of each Feature in a map entry.
template <class Visit>
bool walk_kinds(Bytes entry, Visit&& visit) {
  Cursor fields(entry);
  while (!fields.done()) {
    std::uint32_t tag = 0;
    if (!fields.read_tag(tag)) return false;
    if (tag != kValueTag) {
      if (!wire::skip_field(fields, tag)) return false;
      continue;
    }
    Bytes feature;
    if (!fields.read_delimited(feature)) return false;
    Cursor cursor(feature);
    while (!cursor.done()) {
      if (!cursor.read_tag(tag)) return false;
      const Kind kind = kind_of_tag(tag);
      if (kind == Kind::none) {
        if (!wire::skip_field(cursor, tag)) return false;
        continue;
      }
      Bytes list;
      if (!cursor.read_delimited(list) || !visit(kind, list)) return false;
    }
  }
  return true;
}

}  // namespace feature_detail

// What a oneof holds after its fields were read in order: the last kind, with the lists that came
// since another kind was set. Checks every list of the entry, those that are dropped included.
bool settle_kind(Bytes entry, Kind& kind, std::size_t& first_list);

// Calls `visit(payload)` for each chunk of the feature's values; stops when it returns false.
template <class Visit>
bool visit_values(Bytes buffer, const Location& at, Visit&& visit) {
  switch (at.form) {
    case Form::missing:
    case Form::empty: return true;
    case Form::single: return visit(at.of(buffer));
    case Form::entry: break;
  }
  Kind kind = Kind::none;
  std::size_t first = 0;
  if (!settle_kind(at.of(buffer), kind, first)) return false;
  std::size_t number = 0;
  return feature_detail::walk_kinds(at.of(buffer), [&](Kind, Bytes list) {
    return number++ < first || feature_detail::walk_list(list, kind, visit);
  });
}

struct ValueCount {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  // of bytes values, joined
};

// Counts a feature's values, and checks them but for the length of each varint.
bool count_values(Bytes buffer, const Location& at, ValueCount& count);

}  // namespace tio
