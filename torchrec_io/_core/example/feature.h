// A tf.train.Feature inside a record: where it lies, and iteration over its values.
#pragma once

#include <cstdint>

#include "example/fields.h"
#include "wire/bytes.h"
#include "wire/cursor.h"
#include "wire/field.h"
#include "wire/varint.h"

namespace tio {

// Kinds of values that a Feature stores. The numbers are field numbers of Feature.
enum class Kind : std::uint8_t {
  none = 0,
  bytes = fields::kBytesListField,
  floats = fields::kFloatListField,
  ints = fields::kInt64ListField
};

// Returns the name that messages use for values of a kind.
const char* kind_name(Kind kind);

enum class Form : std::uint8_t {
  missing,  // no such feature, or a Feature without a kind, which TensorFlow treats alike
  empty,    // a list without values
  single,   // one packed run, or one bytes value: the location is its payload
  feature,  // any other valid Feature: the location is all of it, to be walked
  entry,    // several Features in one map entry: the location is the entry, to be walked
  list,     // a FeatureList, which has steps
  lists     // any number of FeatureLists in one map entry: the location is the entry
};

// Location of the values of a feature in their record. A batch has one per record and feature.
struct Location {
  std::uint32_t offset = 0;  // a record is smaller than 2 GiB
  std::uint32_t size = 0;
  Form form = Form::missing;
  Kind kind = Kind::none;  // none for lists, where each step has its own

  Bytes of(Bytes record) const { return record.subspan(offset, size); }
};

namespace feature_detail {

inline Kind kind_of_tag(std::uint32_t tag) {
  const std::uint32_t field = tag >> 3;
  return (tag & 7) == wire::delimited && field <= fields::kInt64ListField ? static_cast<Kind>(field)
                                                                          : Kind::none;
}

// Returns the tag of a single value that is not packed. Bytes are never packed.
inline std::uint32_t unpacked_tag(Kind kind) {
  if (kind == Kind::ints) return fields::kUnpackedInt;
  if (kind == Kind::floats) return fields::kUnpackedFloat;
  return fields::kListValue;
}

// Calls `visit(content)` for each field of `message` with this tag, and skips the other fields.
template <class Visit>
bool walk_fields(Bytes message, std::uint32_t wanted, Visit&& visit) {
  return wire::walk_tags(message, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes content;
    if (tag != wanted) return wire::skip_field(cursor, tag);
    return cursor.read_delimited(content) && visit(content);
  });
}

// Calls `visit(payload)` for each chunk of a list: a packed run, a single number, or a bytes value.
template <class Visit>
bool walk_list(Bytes list, Kind kind, Visit&& visit) {
  return wire::walk_tags(list, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes payload;
    if (tag == fields::kListValue) return cursor.read_delimited(payload) && visit(payload);
    const std::size_t from = cursor.position();
    if (!wire::skip_field(cursor, tag)) return false;
    return tag != unpacked_tag(kind) || visit(list.subspan(from, cursor.position() - from));
  });
}

// Calls `visit(kind, list)` for each list of a Feature.
template <class Visit>
bool walk_feature(Bytes feature, Visit&& visit) {
  return wire::walk_tags(feature, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes list;
    const Kind kind = kind_of_tag(tag);
    if (kind == Kind::none) return wire::skip_field(cursor, tag);
    return cursor.read_delimited(list) && visit(kind, list);
  });
}

// Calls `visit(kind, list)` for each list of a feature of form `feature` or `entry`.
template <class Visit>
bool walk_kinds(Bytes record, const Location& at, Visit&& visit) {
  if (at.form == Form::feature) return walk_feature(at.of(record), visit);
  return walk_fields(at.of(record), fields::kMapValue,
                     [&](Bytes feature) { return walk_feature(feature, visit); });
}

}  // namespace feature_detail

// Locates the values of a Feature that is missing, empty or single, and returns false for any
// other. `at` is the offset of the Feature in its record.
bool locate_simple_feature(Bytes feature, std::size_t at, Location& location);

// Resolves the oneof of a Feature: the kind set last, and the number of the first list since
// another kind was set. Checks every list, also the lists that are dropped.
bool resolve_kind(Bytes record, const Location& at, Kind& kind, std::size_t& first_list);

// Locates the values of any Feature. Returns false if it is invalid.
bool locate_feature(Bytes feature, std::size_t at, Location& location);

// Calls `visit(payload)` for each chunk of the feature's values, and stops when it returns false.
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
  if (!resolve_kind(record, at, kind, first)) return false;
  std::size_t number = 0;
  return feature_detail::walk_kinds(record, at, [&](Kind, Bytes list) {
    return number++ < first || feature_detail::walk_list(list, kind, visit);
  });
}

struct ValueCount {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  // total size of bytes values
};

// Counts the values of a feature. Checks everything but the length of each varint.
bool count_values(Bytes record, Location at, ValueCount& count);

// Checks the values of a feature that will not be decoded, including the length of each varint.
bool check_values(Bytes record, Location at);

}  // namespace tio
