// Locates the features of a record that a parser reads, without decoding their values.
#pragma once

#include <cstdint>
#include <span>

#include "example/entry_parts.h"
#include "example/entry_walk.h"
#include "example/feature.h"
#include "example/parser.h"
#include "example/sequence.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio {

// The first pass over one batch. Predicts each record from the one before it.
class RecordLocator {
 public:
  explicit RecordLocator(const ExampleParser& parser) : parser_(parser) {}

  // Locates the features of one record in `row`. Returns false if the record is invalid.
  bool locate(Bytes record, std::span<Location> row) {
    record_ = record;
    row_ = row;
    entries_.restart();
    return wire::walk_tags(record, [&](std::uint32_t tag, Cursor& cursor) {
      Bytes part;
      if (tag == fields::kContext) {
        return cursor.read_delimited(part) &&
               locate_features(cursor.position() - part.size(), cursor.position());
      }
      if (tag == fields::kFeatureLists && parser_.has_lists()) {
        return cursor.read_delimited(part) && locate_lists(part);
      }
      return wire::skip_field(cursor, tag);
    });
  }

  // Walks a record whose entries are all encoded as predicted. Calls `take(predictor, offset,
  // size)` with the values of each entry that is read. Returns false if an entry is not as
  // predicted, or if `take` returns false. `locate` must then read the record.
  template <class Take>
  bool walk_predicted(Bytes record, Take&& take) const {
    Cursor cursor(record);
    std::uint32_t tag = 0;
    Bytes features;
    if (!cursor.read_tag(tag) || tag != fields::kContext || !cursor.read_delimited(features) ||
        !cursor.done()) {
      return false;
    }
    std::size_t at = record.size() - features.size();
    for (const EntryPredictor& predictor : entries_.predictors()) {
      std::size_t values = 0;
      std::size_t end = 0;
      if (at == record.size()) break;
      if (!predictor.match(record, at, record.size(), values, end)) return false;
      if (predictor.slot() >= 0 && !take(predictor, values, end - values)) return false;
      at = end;
    }
    return at == record.size();
  }

 private:
  bool locate_features(std::size_t at, std::size_t limit) {
    return entries_.walk(
        record_, at, limit,
        [&](const EntryPredictor& predictor, const Location& values) {
          return predictor.slot() < 0 || keep(predictor.slot(), values);
        },
        [&](std::size_t tag_at, Bytes bytes) { return read_entry(tag_at, bytes); });
  }

  bool read_entry(std::size_t tag_at, Bytes bytes) {
    EntryParts entry;
    if (!split_entry(bytes, entry)) return false;
    const int slot = parser_.find(entry.key, false);
    Location found;
    const bool is_plain =
        entry.values == 1 &&
        locate_simple_feature(entry.value, offset_in(record_, entry.value), found);
    if (is_plain) entries_.learn(record_, tag_at, bytes, entry.key, found, slot);
    if (slot < 0) return true;  // not read
    if (!is_plain && !locate_entry(record_, bytes, entry, found)) return false;
    return keep(slot, found);
  }

  // If several entries have one key, the last one counts. The others must still be valid.
  bool keep(int slot, const Location& location) {
    Location& known = row_[static_cast<std::size_t>(slot)];
    if (known.form != Form::missing && !check_values(record_, known)) return false;
    known = location;
    return true;
  }

  bool locate_lists(Bytes lists) {
    return feature_detail::walk_fields(lists, fields::kMapEntry, [&](Bytes bytes) {
      EntryParts entry;
      if (!split_entry(bytes, entry)) return false;
      const int slot = parser_.find(entry.key, true);
      if (slot < 0) return true;
      Location& known = row_[static_cast<std::size_t>(slot)];
      if (!check_steps(known)) return false;
      known = locate_steps(record_, bytes, entry);
      return true;
    });
  }

  bool check_steps(const Location& list) const {
    return walk_steps(record_, list, Kind::ints,
                      [&](const Location& step) { return check_values(record_, step); });
  }

  const ExampleParser& parser_;
  Bytes record_;
  std::span<Location> row_;
  EntryWalk entries_;
};

}  // namespace tio
