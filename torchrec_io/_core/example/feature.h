// One tf.train.Feature inside a record: where it lies, and how its values are visited.
#pragma once

#include <cstdint>

#include "wire/bytes.h"
#include "wire/cursor.h"
#include "wire/varint.h"
#include "wire/wire.h"

namespace tio {

// The numbers are the field numbers of Feature's oneof.
enum class Kind : std::uint8_t { none = 0, bytes = 1, floats = 2, ints = 3 };

const char* kind_name(Kind kind);

enum class Form : std::uint8_t {
  missing,  // no such feature, or a Feature with no kind set: TensorFlow treats them alike
  empty,    // a list without values
  single,   // one packed chunk, or one bytes value: the location is that payload
  feature,  // any other legal Feature: the location is all of it, to be walked
  entry,    // several Features in one map entry: the location is the entry, to be walked
  list,     // a FeatureList, in steps
  lists     // any number of FeatureLists in one map entry: the location is the entry
};

// Where a feature's values lie in its record. A batch has one for each record and feature.
struct Location {
  std::uint32_t offset = 0;  // records are smaller than 2 GiB
  std::uint32_t size = 0;
  Form form = Form::missing;
  Kind kind = Kind::none;  // none for lists: each step has its own

  Bytes of(Bytes record) const { return record.subspan(offset, size); }
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

// Calls `visit(content)` for each field of `message` that has this tag, and skips the others.
template <class Visit>
bool walk_fields(Bytes message, std::uint32_t wanted, Visit&& visit) {
  Cursor cursor(message);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) return false;
    Bytes content;
    if (tag != wanted) {
      if (!wire::skip_field(cursor, tag)) return false;
    } else if (!cursor.read_delimited(content) || !visit(content)) {
      return false;
    }
  }
  return true;
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

// Calls `visit(kind, list)` for each list of a Feature.
template <class Visit>
bool walk_feature(Bytes feature, Visit&& visit) {
  Cursor cursor(feature);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) return false;
    const Kind kind = kind_of_tag(tag);
    if (kind == Kind::none) {
      if (!wire::skip_field(cursor, tag)) return false;
      continue;
    }
    Bytes list;
    if (!cursor.read_delimited(list) || !visit(kind, list)) return false;
  }
  return true;
}

// Calls `visit(kind, list)` for each list of a feature of form `feature` or `entry`.
template <class Visit>
bool walk_kinds(Bytes record, const Location& at, Visit&& visit) {
  if (at.form == Form::feature) return walk_feature(at.of(record), visit);
  return walk_fields(at.of(record), kValueTag,
                     [&](Bytes feature) { return walk_feature(feature, visit); });
}

}  // namespace feature_detail

// If a Feature is missing, empty or single, says where its values lie; `at` is where it starts in
// the record.
bool classify_feature(Bytes feature, std::size_t at, Location& location);

// What a oneof holds after its fields were read in order: the last kind, with the lists that came
// since another kind was set. Checks every list, those that are dropped included.
bool settle_kind(Bytes record, const Location& at, Kind& kind, std::size_t& first_list);

// Locates any Feature; false if it is not legal.
bool locate_feature(Bytes feature, std::size_t at, Location& location);

// Calls `visit(payload)` for each chunk of the feature's values; stops when it returns false.
template <class Visit>
bool visit_values(Bytes record, const Location& at, Visit&& visit) {
  switch (at.form) {
    case Form::missing:
    case Form::empty: return true;
    case Form::single: return visit(at.of(record));
    case Form::feature:
    case Form::entry: break;
    case Form::list:
    case Form::lists: return false;  // these have steps
  }
  Kind kind = Kind::none;
  std::size_t first = 0;
  if (!settle_kind(record, at, kind, first)) return false;
  std::size_t number = 0;
  return feature_detail::walk_kinds(record, at, [&](Kind, Bytes list) {
    return number++ < first || feature_detail::walk_list(list, kind, visit);
  });
}

struct ValueCount {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  // of bytes values, joined
};

// Counts a feature's values, and checks them but for the length of each varint.
bool count_values(Bytes record, Location at, ValueCount& count);

// As count_values, but checks every varint too: for what nobody will decode.
bool check_values(Bytes record, Location at);

}  // namespace tio
