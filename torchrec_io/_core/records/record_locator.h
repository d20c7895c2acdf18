// Finds the features of a record that a parser asks for, without looking into their values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wire/cursor.h"
#include "example/example.h"
#include "example/feature.h"
#include "example/sequence.h"
#include "example/entry_predictor.h"
#include "wire/wire.h"

namespace tio {

// The first pass over one batch. Keeps what the last record looked like to foresee the next one.
class RecordLocator {
 public:
  explicit RecordLocator(const ExampleParser& parser) : parser_(parser) {}

  // Locates the features of one record in `row`. False: the record is not legal.
  bool locate(Bytes record, std::span<Location> row) {
    record_ = record;
    row_ = row;
    entry_number_ = 0;
    Cursor cursor(record);
    while (!cursor.done()) {
      std::uint32_t tag = 0;
      Bytes part;
      if (!cursor.read_tag(tag)) return false;
      if (tag == kContextTag) {
        if (!cursor.read_delimited(part) ||
            !locate_features(cursor.position() - part.size(), cursor.position())) {
          return false;
        }
      } else if (tag == kListsTag && parser_.has_lists()) {
        if (!cursor.read_delimited(part) || !locate_lists(part)) return false;
      } else if (!wire::skip_field(cursor, tag)) {
        return false;
      }
    }
    return true;
  }

  // Walks a record of which every entry is spelled as foreseen, and calls `take(entry, offset,
  // size)` for each that is asked for, in order: where its values are. False if an entry is not, or
  // if `take` says so: then nothing is known of the record, and `locate` must look at it.
  template <class Take>
  bool walk_foreseen(Bytes record, Take&& take) const {
    Cursor cursor(record);
    std::uint32_t tag = 0;
    Bytes features;
    if (!cursor.read_tag(tag) || tag != kContextTag || !cursor.read_delimited(features) ||
        !cursor.done()) {
      return false;
    }
    std::size_t at = record.size() - features.size();
    for (const EntryTemplate& foreseen : templates_) {
      std::size_t values = 0;
      std::size_t end = 0;
      if (at == record.size()) break;
      if (!foreseen.match(record, at, record.size(), values, end)) return false;
      if (foreseen.slot() >= 0 && !take(foreseen, values, end - values)) return false;
      at = end;
    }
    return at == record.size();
  }

 private:
  static constexpr std::uint32_t kContextTag =
      wire::tag(1, wire::delimited);  // Example's features, too
  static constexpr std::uint32_t kListsTag = wire::tag(2, wire::delimited);
  static constexpr std::uint32_t kEntryTag = wire::tag(1, wire::delimited);

  static std::size_t place_of(Bytes record, Bytes part) {
    return static_cast<std::size_t>(part.data() - record.data());
  }

  bool locate_features(std::size_t at, std::size_t limit) {
    while (at < limit) {
      const EntryTemplate* foreseen = next_template();
      std::size_t values = 0;
      std::size_t end = 0;
      if (foreseen != nullptr && foreseen->match(record_, at, limit, values, end)) {
        const Location at_values{static_cast<std::uint32_t>(values),
                                 static_cast<std::uint32_t>(end - values), Form::single,
                                 foreseen->kind()};
        if (foreseen->slot() >= 0 && !place(foreseen->slot(), at_values)) return false;
        at = end;
      } else if (!read_field(at, limit)) {
        return false;
      }
      if (foreseen != nullptr) ++entry_number_;
    }
    return true;
  }

  // What is known of the entry to come; null past a number of entries that no real record has, so
  // that a hostile one cannot make this grow.
  EntryTemplate* next_template() {
    constexpr std::size_t kMostTemplates = 4096;
    if (entry_number_ == kMostTemplates) return nullptr;
    if (entry_number_ == templates_.size()) templates_.emplace_back();
    return &templates_[entry_number_];
  }

  // Reads the field of Features at `at` and moves behind it.
  bool read_field(std::size_t& at, std::size_t limit) {
    Cursor cursor(record_.subspan(at, limit - at));
    std::uint32_t tag = 0;
    Bytes entry;
    if (!cursor.read_tag(tag)) return false;
    if (tag != kEntryTag) {
      if (!wire::skip_field(cursor, tag)) return false;
    } else if (!cursor.read_delimited(entry) || !read_entry(at, entry)) {
      return false;
    }
    at += cursor.position();
    return true;
  }

  struct Entry {
    Bytes key;
    Bytes value;  // the last one; only if there is just one is it all there is
    int values = 0;
  };

  static bool split_entry(Bytes bytes, Entry& entry) {
    Cursor cursor(bytes);
    while (!cursor.done()) {
      std::uint32_t tag = 0;
      if (!cursor.read_tag(tag)) return false;
      if (tag == feature_detail::kKeyTag) {
        if (!cursor.read_delimited(entry.key)) return false;
      } else if (tag == feature_detail::kValueTag) {
        if (!cursor.read_delimited(entry.value)) return false;
        ++entry.values;
      } else if (!wire::skip_field(cursor, tag)) {
        return false;
      }
    }
    return true;
  }

  bool read_entry(std::size_t tag_at, Bytes bytes) {
    Entry entry;
    if (!split_entry(bytes, entry)) return false;
    const int slot = parser_.find(entry.key, false);
    Location found;
    const bool is_plain =
        entry.values == 1 && classify_feature(entry.value, place_of(record_, entry.value), found);
    const std::size_t end = place_of(record_, bytes) + bytes.size();
    if (is_plain && found.form == Form::single && std::size_t{found.offset} + found.size == end) {
      if (EntryTemplate* next = next_template()) {
        next->learn(record_, tag_at, found.offset, end, entry.key.size(), slot, found.kind);
      }
    }
    if (slot < 0) return true;  // not asked for: its Feature stays unread
    if (!is_plain && !locate_entry(bytes, entry, found)) return false;
    return place(slot, found);
  }

  bool locate_entry(Bytes bytes, const Entry& entry, Location& found) const {
    if (entry.values == 1) {
      return locate_feature(entry.value, place_of(record_, entry.value), found);
    }
    found = {static_cast<std::uint32_t>(place_of(record_, bytes)),
             static_cast<std::uint32_t>(bytes.size()), Form::entry, Kind::none};
    std::size_t first = 0;
    if (!settle_kind(record_, found, found.kind, first)) return false;
    if (found.kind == Kind::none) found.form = Form::missing;
    return true;
  }

  // Of several entries with one key the last counts; the others must still be sound.
  bool place(int slot, const Location& location) {
    Location& known = row_[static_cast<std::size_t>(slot)];
    if (known.form != Form::missing && !check_values(record_, known)) return false;
    known = location;
    return true;
  }

  bool locate_lists(Bytes lists) {
    return feature_detail::walk_fields(lists, kEntryTag, [&](Bytes bytes) {
      Entry entry;
      if (!split_entry(bytes, entry)) return false;
      const int slot = parser_.find(entry.key, true);
      if (slot < 0) return true;
      Location& known = row_[static_cast<std::size_t>(slot)];
      if (!check_steps(known)) return false;
      const Bytes where = entry.values == 1 ? entry.value : bytes;
      known = {static_cast<std::uint32_t>(place_of(record_, where)),
               static_cast<std::uint32_t>(where.size()),
               entry.values == 1 ? Form::list : Form::lists, Kind::none};
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
  std::size_t entry_number_ = 0;
  std::vector<EntryTemplate> templates_;
};

}  // namespace tio
