// The parts of an entry of the map that Features or FeatureLists are.
#pragma once

#include <cstdint>

#include "example/feature.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio {

struct EntryParts {
  Bytes key;       // the last one
  Bytes value;     // the last one
  int values = 0;  // how many there are
};

inline std::size_t offset_in(Bytes record, Bytes part) {
  return static_cast<std::size_t>(part.data() - record.data());
}

// Splits the bytes of an entry. Returns false if they are invalid.
inline bool split_entry(Bytes bytes, EntryParts& entry) {
  return wire::walk_tags(bytes, [&](std::uint32_t tag, Cursor& cursor) {
    if (tag == fields::kMapKey) return cursor.read_delimited(entry.key);
    if (tag != fields::kMapValue) return wire::skip_field(cursor, tag);
    ++entry.values;
    return cursor.read_delimited(entry.value);
  });
}

// Locates the values of a Feature in an entry. Protobuf merges several Features of one entry.
inline bool locate_entry(Bytes record, Bytes bytes, const EntryParts& entry, Location& found) {
  if (entry.values == 1) {
    return locate_feature(entry.value, offset_in(record, entry.value), found);
  }
  found = {static_cast<std::uint32_t>(offset_in(record, bytes)),
           static_cast<std::uint32_t>(bytes.size()), Form::entry, Kind::none};
  std::size_t first = 0;
  if (!resolve_kind(record, found, found.kind, first)) return false;
  if (found.kind == Kind::none) found.form = Form::missing;
  return true;
}

// Returns the location of the steps in an entry of FeatureLists, which are not checked.
inline Location locate_steps(Bytes record, Bytes bytes, const EntryParts& entry) {
  const Bytes where = entry.values == 1 ? entry.value : bytes;
  return {static_cast<std::uint32_t>(offset_in(record, where)),
          static_cast<std::uint32_t>(where.size()), entry.values == 1 ? Form::list : Form::lists,
          Kind::none};
}

}  // namespace tio
