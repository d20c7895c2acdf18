#include "example.h"

#include <algorithm>
#include <utility>

#include "cursor.h"
#include "explain.h"
#include "sequence.h"
#include "template.h"
#include "wire.h"

namespace tio {

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::int64:
    case Element::uint64:
    case Element::float64: return 8;
    case Element::int32:
    case Element::uint32:
    case Element::float32: return 4;
    case Element::int16:
    case Element::uint16:
    case Element::float16:
    case Element::bfloat16: return 2;
    default: return 1;
  }
}

Kind stored_kind(Element element) {
  if (element == Element::bytes) return Kind::bytes;
  return element < Element::float32 ? Kind::ints : Kind::floats;
}

const char* FeatureSpec::fault() const {
  const bool copied = shape == Shape::raw || shape == Shape::resized || shape == Shape::span;
  if (copied && (element != Element::bytes || optional)) {
    return "raw, resized and span features are required bytes";
  }
  if (shape == Shape::aside && element != Element::int64) return "an aside feature is of int64";
  if (in_lists && (copied || shape == Shape::fixed)) return "no such feature list";
  if (shape == Shape::padded && count == 0) return "a part holds no value";
  const bool has_default = shape == Shape::padded || (shape == Shape::fixed && optional);
  if (!has_default) return nullptr;
  const std::uint64_t values = shape == Shape::padded ? 1 : count;
  if (element == Element::bytes) {
    std::uint64_t bytes = 0;
    for (const auto size : default_sizes)
      bytes += std::min<std::uint64_t>(size, default_data.size());
    if (default_sizes.size() == values && bytes == default_data.size()) return nullptr;
  } else if (default_data.size() % element_bytes(element) == 0 &&
             default_data.size() / element_bytes(element) == values) {
    return nullptr;
  }
  return "the default has another size than the feature";
}

namespace {

constexpr std::uint32_t kContextTag = wire::tag(1, wire::delimited);  // Example's features, too
constexpr std::uint32_t kListsTag = wire::tag(2, wire::delimited);
constexpr std::uint32_t kEntryTag = wire::tag(1, wire::delimited);
constexpr std::uint64_t kLargestRecord = 0x7fffffffU;  // protobuf's limit, and TensorFlow's

std::string plural(std::uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? " value" : " values");
}

std::size_t place_of(Bytes record, Bytes part) {
  return static_cast<std::size_t>(part.data() - record.data());
}

}  // namespace

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

 private:
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

namespace {

// Judges the located features of one record, as far as shows without decoding them.
class RecordCheck {
 public:
  explicit RecordCheck(Bytes record) : record_(record) {}

  // False: `reason` says what is wrong, `offset` where, if it is anywhere. Without a reason, the
  // record is not legal.
  bool check(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    offset = -1;
    if (at.form == Form::missing) return check_missing(spec, size);
    return spec.in_lists ? check_list(spec, at, size) : check_feature(spec, at, size);
  }

  std::string reason;
  std::int64_t offset = -1;

 private:
  bool fail(Location at, std::string why) {
    offset = at.offset;
    reason = std::move(why);
    return false;
  }

  static bool may_be_missing(Shape shape) {
    return shape == Shape::ragged || shape == Shape::flat || shape == Shape::aside;
  }

  bool check_missing(const FeatureSpec& spec, ColumnSize& size) {
    if (may_be_missing(spec.shape)) return true;
    if (!spec.optional) {
      reason = "the feature is required but the record does not have it";
      return false;
    }
    if (spec.shape == Shape::fixed) {
      for (const auto bytes : spec.default_sizes) size.bytes += bytes;
      size.values += spec.count;
    }
    return true;
  }

  bool check_kind(const FeatureSpec& spec, Location at) {
    const Kind wanted = stored_kind(spec.element);
    return at.kind == wanted || fail(at, std::string("the record holds ") + kind_name(at.kind) +
                                             " values, the schema wants " + kind_name(wanted));
  }

  bool check_feature(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    if (!check_kind(spec, at)) return false;
    ValueCount count;
    if (!count_values(record_, at, count)) return false;
    if (!check_count(spec, at, count)) return false;
    size.values += count.values;
    size.bytes += count.bytes;
    if (spec.shape == Shape::padded) {
      size.longest = std::max(size.longest, count.values / spec.count);
    }
    return true;
  }

  bool check_count(const FeatureSpec& spec, const Location& at, const ValueCount& count) {
    const auto wants = [&](const std::string& what) {
      return fail(at, "the record holds " + plural(count.values, kind_name(at.kind)) +
                          ", the schema wants " + what);
    };
    switch (spec.shape) {
      case Shape::fixed: return count.values == spec.count || wants(std::to_string(spec.count));
      case Shape::padded:
        return count.values % spec.count == 0 ||
               wants("a multiple of " + std::to_string(spec.count));
      case Shape::raw:
        if (count.values != 1) return wants("1");
        return count.bytes == spec.count ||
               fail(at, "its value has " + std::to_string(count.bytes) +
                            " bytes, the schema wants " + std::to_string(spec.count));
      case Shape::resized:
      case Shape::span: return count.values == 1 || wants("1");
      case Shape::ragged:
      case Shape::flat:
      case Shape::aside: return true;
    }
    return true;
  }

  bool check_list(const FeatureSpec& spec, Location list, ColumnSize& size) {
    const Kind wanted = stored_kind(spec.element);
    ColumnSize seen;
    bool good = true;
    const auto check_step = [&](Location step) {
      ++seen.steps;
      if (step.form != Form::missing && step.kind != wanted) return good = check_kind(spec, step);
      ValueCount count;
      if (!count_values(record_, step, count)) return false;
      seen.values += count.values;
      seen.bytes += count.bytes;
      return spec.shape != Shape::padded || count.values == spec.count ||
             (good = wrong_step(spec, step, seen.steps - 1, count.values));
    };
    const auto check_run = [&](const StepRun& run) {
      if (wanted == Kind::ints && count_run(spec, run, seen)) return true;
      for (std::size_t i = 0; i < run.count; ++i) {
        if (!check_step(run[i])) return false;
      }
      return true;
    };
    const bool legal = walk_steps(record_, list, wanted, check_run, check_step);
    if (!good || !legal) return false;
    size.values += seen.values;
    size.bytes += seen.bytes;
    size.steps += seen.steps;
    size.longest = std::max(size.longest, seen.steps);
    return true;
  }

  // Counts steps of integers that are as they should be; false if they have to be looked at.
  bool count_run(const FeatureSpec& spec, const StepRun& run, ColumnSize& seen) const {
    const bool one_each = spec.shape == Shape::padded && spec.count == 1;
    std::uint64_t values = one_each ? run.count : 0;  // decoding sees whether it is just one
    for (std::size_t i = 0; !one_each && i < run.count; ++i) {
      std::uint64_t count = 0;
      if (run.sizes[i] == 0 || run.sizes[i] > 8) return false;
      const auto word = load<std::uint64_t>(record_, run.offsets[i]);
      if (!count_word(word, run.sizes[i], count)) return false;
      if (spec.shape == Shape::padded && count != spec.count) return false;
      values += count;
    }
    seen.steps += run.count;
    seen.values += values;
    return true;
  }

  bool wrong_step(const FeatureSpec& spec, Location step, std::uint64_t number,
                  std::uint64_t values) {
    return fail(step, "step " + std::to_string(number) + " holds " +
                          plural(values, kind_name(stored_kind(spec.element))) +
                          ", the schema wants " + std::to_string(spec.count));
  }

  Bytes record_;
};

// What padding takes of the room for joined bytes.
void add_padding(const FeatureSpec& spec, std::size_t records, ColumnSize& size) {
  if (spec.shape != Shape::padded || spec.element != Element::bytes) return;
  size.bytes += (records * size.longest * spec.count - size.values) * spec.default_sizes[0];
}

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureSpec> specs, bool sequences)
    : specs_(std::move(specs)), sequences_(sequences) {
  for (const FeatureSpec& spec : specs_) {
    auto& slots = spec.in_lists ? lists_ : context_;
    const auto [found, is_new] = slots.try_emplace(spec.key, static_cast<int>(slots_));
    slots_ += is_new ? 1 : 0;
    slot_of_.push_back(static_cast<std::size_t>(found->second));
    const Kind kind = stored_kind(spec.element);
    plain_.push_back({.possible = spec.shape == Shape::fixed && kind != Kind::bytes,
                      .kind = kind,
                      .least_bytes = kind == Kind::ints ? spec.count : 4 * spec.count,
                      .most_bytes = kind == Kind::ints ? UINT64_MAX : 4 * spec.count});
  }
}

int ExampleParser::find(Bytes key, bool in_lists) const {
  const auto& slots = in_lists ? lists_ : context_;
  const auto found =
      slots.find(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()));
  return found == slots.end() ? -1 : found->second;
}

bool ExampleParser::is_fixed() const {
  return std::ranges::all_of(plain_, &PlainLocation::possible);
}

void ExampleParser::locate_some(RecordLocator& locator, const Records& records,
                                std::span<const std::size_t> which, Rows rows,
                                Located& located) const {
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::size_t record = which[i];
    const Bytes bytes = records[record];
    const std::size_t number = rows == Rows::of_records ? record : i;
    const std::span<Location> row(located.locations.data() + number * slots_, slots_);
    const auto fail = [&](int feature, std::int64_t offset, std::string reason) {
      located.failures.push_back({record, feature, offset, std::move(reason)});
    };
    if (bytes.size() > kLargestRecord) {
      fail(-1, -1, "the record is larger than 2 GiB, the most that an Example may have");
      continue;
    }
    const auto fail_illegal = [&](int feature) {
      auto failure = illegal(record, bytes, feature);
      located.failures.push_back(
          std::move(failure).value_or(Failure{record, feature, -1, "the record is not legal"}));
    };
    if (!locator.locate(bytes, row)) {
      fail_illegal(-1);
      continue;
    }
    for (std::size_t feature = 0; feature < specs_.size(); ++feature) {
      const Location& at = row[slot_of_[feature]];
      if (plain_[feature].matches(at)) continue;
      RecordCheck check(bytes);
      if (check.check(specs_[feature], at, located.sizes[feature])) continue;
      const auto position = static_cast<int>(feature);
      if (check.reason.empty()) {
        fail_illegal(position);
      } else {
        fail(position, check.offset, std::move(check.reason));
      }
      break;
    }
  }
}

Located ExampleParser::locate(const Records& records) const {
  Located located;
  located.records = records.size();
  located.slots = slots_;
  located.locations.resize(records.size() * slots_);
  located.sizes.resize(specs_.size());
  RecordLocator locator(*this);
  locate_some(locator, records, records.order(), Rows::of_records, located);
  for (std::size_t i = 0; i < specs_.size(); ++i)
    add_padding(specs_[i], records.size(), located.sizes[i]);
  // Failures are told in the order of the batch.
  std::ranges::sort(located.failures, {}, &Failure::record);
  return located;
}

bool ExampleParser::parse_fixed(const Records& records, std::span<const ColumnPlace> places,
                                MutableBytes arena, std::vector<Failure>& failures) const {
  constexpr std::size_t kTile = 32;
  Located tile;
  tile.records = records.size();
  tile.sizes.resize(specs_.size());
  if (!is_fixed() || !places_fit(tile, places, arena)) return false;
  tile.slots = slots_;
  RecordLocator locator(*this);
  for (std::size_t begin = 0; begin < records.size(); begin += kTile) {
    const std::size_t end = std::min(begin + kTile, records.size());
    const auto which = records.order().subspan(begin, end - begin);
    tile.locations.assign(which.size() * slots_, Location());
    tile.failures.clear();
    locate_some(locator, records, which, Rows::of_tile, tile);
    if (tile.failures.empty() && failures.empty()) {
      fill_fixed(records, tile, which, Rows::of_tile, places, arena, failures);
    }
    failures.insert(failures.end(), tile.failures.begin(), tile.failures.end());
  }
  std::ranges::sort(failures, {}, &Failure::record);
  return true;
}

std::optional<Failure> ExampleParser::illegal(std::size_t record, Bytes bytes, int feature) const {
  const auto fault = explain(*this, bytes);
  if (!fault) return std::nullopt;
  if (fault->slot < 0) {
    feature = -1;
  } else if (feature < 0 ||
             slot(static_cast<std::size_t>(feature)) != static_cast<std::size_t>(fault->slot)) {
    const auto found = std::ranges::find(slot_of_, static_cast<std::size_t>(fault->slot));
    feature = static_cast<int>(found - slot_of_.begin());
  }
  return Failure{record, feature, static_cast<std::int64_t>(fault->offset), fault->reason};
}

template <class Visit>
Integers ExampleParser::walk_units(const Records& records, const Located& located,
                                   std::size_t feature, Visit&& visit) const {
  Integers found;
  const FeatureSpec& spec = specs_[feature];
  found.offsets.push_back(0);
  found.rows.push_back(0);
  for (std::size_t record = 0; record < records.size(); ++record) {
    const Bytes bytes = records[record];
    const Location& at = located.at(record, slot_of_[feature]);
    const auto unit = [&](const Location& values) {
      const bool legal = visit(bytes, values, found);
      found.offsets.push_back(found.offsets.back() + found.added);
      return legal;
    };
    const bool legal =
        spec.in_lists ? walk_steps(bytes, at, stored_kind(spec.element), unit) : unit(at);
    if (!legal) found.damaged.push_back(record);
    found.rows.push_back(static_cast<std::int64_t>(found.offsets.size() - 1));
  }
  return found;
}

Integers ExampleParser::counts(const Records& records, const Located& located,
                               std::size_t feature) const {
  return walk_units(records, located, feature,
                    [](Bytes record, const Location& at, Integers& found) {
                      ValueCount count;
                      const bool legal = count_values(record, at, count);
                      found.added = static_cast<std::int64_t>(count.values);
                      return legal;
                    });
}

Integers ExampleParser::integers(const Records& records, const Located& located,
                                 std::size_t feature, std::vector<Failure>& failures) const {
  Integers all =
      walk_units(records, located, feature, [](Bytes record, const Location& at, Integers& found) {
        const std::size_t before = found.values.size();
        const bool legal = visit_values(record, at, [&](Bytes payload) {
          VarintReader reader(payload);
          std::int64_t piece[64];
          while (!reader.done() && !reader.bad()) {
            const std::size_t count = reader.read(piece, std::size(piece));
            found.values.insert(found.values.end(), piece, piece + count);
          }
          return !reader.bad();
        });
        found.added = static_cast<std::int64_t>(found.values.size() - before);
        return legal;
      });
  for (const std::size_t record : all.damaged) {
    const int position = static_cast<int>(feature);
    failures.push_back(illegal(record, records[record], position)
                           .value_or(Failure{record, position, -1, "the record is not legal"}));
  }
  return all;
}

}  // namespace tio
