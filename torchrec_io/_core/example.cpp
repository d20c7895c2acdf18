#include "example.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cursor.h"
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

namespace {

constexpr std::uint32_t kEntryTag = wire::tag(1, wire::delimited);
constexpr std::uint64_t kLargestExample = 0x7fffffffU;  // protobuf's limit, and TensorFlow's

std::string plural(std::uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? " value" : " values");
}

// Positions of the records, by where they start.
std::vector<std::size_t> ascending(std::span<const std::int64_t> starts) {
  std::vector<std::size_t> order(starts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!std::ranges::is_sorted(starts)) {
    std::ranges::sort(order, {}, [starts](std::size_t i) { return std::pair(starts[i], i); });
  }
  return order;
}

}  // namespace

// The first pass over one batch. Keeps what the last record looked like to foresee the next one.
class RecordLocator {
 public:
  RecordLocator(const ExampleParser& parser, Bytes buffer) : parser_(parser), buffer_(buffer) {}

  // Locates the features of one record in `row`. False: the record is no Example.
  bool locate(std::size_t start, std::size_t size, std::span<Location> row) {
    row_ = row;
    entry_number_ = 0;
    Cursor record(buffer_.subspan(start, size));
    while (!record.done()) {
      std::uint32_t tag = 0;
      Bytes features;
      if (!record.read_tag(tag)) return false;
      if (tag != wire::tag(1, wire::delimited)) {
        if (!wire::skip_field(record, tag)) return false;
      } else if (!record.read_delimited(features) ||
                 !locate_features(start + record.position() - features.size(),
                                  start + record.position())) {
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
      if (foreseen != nullptr && foreseen->match(buffer_, at, limit, values, end)) {
        const Location at_values{values, static_cast<std::uint32_t>(end - values), Form::single,
                                 foreseen->kind()};
        if (foreseen->feature() >= 0 && !place(foreseen->feature(), at_values)) return false;
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
    Cursor cursor(buffer_.subspan(at, limit - at));
    std::uint32_t tag = 0;
    Bytes entry;
    if (!cursor.read_tag(tag)) return false;
    if (tag != kEntryTag) {
      if (!wire::skip_field(cursor, tag)) return false;
    } else if (!cursor.read_delimited(entry) ||
               !read_entry(at, at + cursor.position() - entry.size(), entry)) {
      return false;
    }
    at += cursor.position();
    return true;
  }

  struct Entry {
    Bytes key;
    Bytes feature;  // the last one; only if there is just one is it all there is
    int features = 0;
    std::size_t feature_at = 0;
  };

  static bool split_entry(Bytes bytes, Entry& entry) {
    Cursor cursor(bytes);
    while (!cursor.done()) {
      std::uint32_t tag = 0;
      if (!cursor.read_tag(tag)) return false;
      if (tag == feature_detail::kKeyTag) {
        if (!cursor.read_delimited(entry.key)) return false;
      } else if (tag == feature_detail::kValueTag) {
        if (!cursor.read_delimited(entry.feature)) return false;
        entry.feature_at = cursor.position() - entry.feature.size();
        ++entry.features;
      } else if (!wire::skip_field(cursor, tag)) {
        return false;
      }
    }
    return true;
  }

  bool read_entry(std::size_t tag_at, std::size_t entry_at, Bytes bytes) {
    Entry entry;
    if (!split_entry(bytes, entry)) return false;
    const int feature = find(entry.key);
    Location single;
    const bool is_single =
        entry.features == 1 && classify(entry.feature, entry_at + entry.feature_at, single);
    if (is_single && single.form == Form::single &&
        single.offset + single.size == entry_at + bytes.size()) {
      if (EntryTemplate* next = next_template()) {
        next->learn(buffer_, tag_at, single.offset, entry_at + bytes.size(), entry.key.size(),
                    feature, single.kind);
      }
    }
    if (feature < 0) return true;  // not asked for: its Feature stays unread
    if (is_single) return place(feature, single);

    Location whole{entry_at, static_cast<std::uint32_t>(bytes.size()), Form::entry, Kind::none};
    std::size_t first = 0;
    if (!settle_kind(bytes, whole.kind, first)) return false;
    if (whole.kind == Kind::none) whole.form = Form::missing;
    return place(feature, whole);
  }

  // Whether a Feature is one of the three plain forms; `at` is where it lies in the buffer.
  static bool classify(Bytes feature, std::size_t at, Location& location) {
    Cursor cursor(feature);
    std::uint32_t tag = 0;
    Bytes list;
    Bytes payload;
    if (feature.empty()) {
      location = {at, 0, Form::missing, Kind::none};
      return true;
    }
    if (!cursor.read_tag(tag)) return false;
    const Kind kind = feature_detail::kind_of_tag(tag);
    if (kind == Kind::none || !cursor.read_delimited(list) || !cursor.done()) return false;
    if (list.empty()) {
      location = {at, 0, Form::empty, kind};
      return true;
    }
    Cursor values(list);
    if (!values.read_tag(tag) || tag != feature_detail::kRepeatedTag ||
        !values.read_delimited(payload) || !values.done()) {
      return false;
    }
    location = {at + feature.size() - payload.size(), static_cast<std::uint32_t>(payload.size()),
                Form::single, kind};
    return true;
  }

  // Of several entries with one key the last counts; the others must still be sound.
  bool place(int feature, const Location& location) {
    Location& slot = row_[static_cast<std::size_t>(feature)];
    if (slot.form != Form::missing && !is_sound(slot)) return false;
    slot = location;
    return true;
  }

  bool is_sound(const Location& location) const {
    ValueCount count;
    return count_values(buffer_, location, count) && decodes(location);
  }

  bool decodes(const Location& location) const {
    if (location.kind != Kind::ints) return true;
    return visit_values(buffer_, location, [](Bytes payload) {
      VarintReader reader(payload);
      std::int64_t scratch[16];
      while (!reader.done() && !reader.bad()) reader.read(scratch, 16);
      return !reader.bad();
    });
  }

  int find(Bytes key) const {
    const auto* text = reinterpret_cast<const char*>(key.data());
    const auto found = parser_.by_name_.find(std::string_view(text, key.size()));
    return found == parser_.by_name_.end() ? -1 : found->second;
  }

  const ExampleParser& parser_;
  Bytes buffer_;
  std::span<Location> row_;
  std::size_t entry_number_ = 0;
  std::vector<EntryTemplate> templates_;
};

namespace {

// What is wrong with a located feature, as far as it shows without decoding it; empty if nothing.
std::string check_feature(Bytes buffer, const FeatureSpec& spec, const Location& at,
                          ValueCount& total) {
  const Kind wanted = stored_kind(spec.element);
  if (at.form == Form::missing) {
    if (spec.shape == Shape::ragged) return "";
    if (!spec.has_default) return "the feature is required but the record does not have it";
    for (const auto size : spec.default_sizes) total.bytes += size;
    total.values += spec.count;
    return "";
  }
  if (at.kind != wanted) {
    return std::string("the record holds ") + kind_name(at.kind) + " values, the schema wants " +
           kind_name(wanted);
  }
  ValueCount count;
  if (!count_values(buffer, at, count)) return "its list of values is cut short or not legal";
  if (spec.shape == Shape::fixed && count.values != spec.count) {
    return "the record holds " + plural(count.values, kind_name(at.kind)) + ", the schema wants " +
           std::to_string(spec.count);
  }
  if ((spec.shape == Shape::raw || spec.shape == Shape::span) && count.values != 1) {
    return "the record holds " + plural(count.values, kind_name(at.kind)) + ", the schema wants 1";
  }
  if (spec.shape == Shape::raw && count.bytes != spec.count) {
    return "its value has " + std::to_string(count.bytes) + " bytes, the schema wants " +
           std::to_string(spec.count);
  }
  total.values += count.values;
  total.bytes += count.bytes;
  return "";
}

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureSpec> specs) : specs_(std::move(specs)) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const FeatureSpec& spec = specs_[i];
    const Kind kind = stored_kind(spec.element);
    by_name_[spec.name] = static_cast<int>(i);
    plain_.push_back({.possible = spec.shape == Shape::fixed && kind != Kind::bytes,
                      .kind = kind,
                      .least_bytes = kind == Kind::ints ? spec.count : 4 * spec.count,
                      .most_bytes = kind == Kind::ints ? UINT64_MAX : 4 * spec.count});
  }
}

Located ExampleParser::locate(Bytes buffer, std::span<const std::int64_t> starts,
                              std::span<const std::int64_t> sizes) const {
  Located located;
  located.records = starts.size();
  located.buffer_bytes = buffer.size();
  located.locations.resize(starts.size() * specs_.size());
  located.totals.resize(specs_.size());
  RecordLocator locator(*this, buffer);
  // In the order of the buffer: neighbours there are of one file, hence spelled alike.
  for (const std::size_t record : ascending(starts)) {
    const auto start = static_cast<std::uint64_t>(starts[record]);
    const auto size = static_cast<std::uint64_t>(sizes[record]);
    const auto fail = [&](int feature, std::uint64_t offset, std::string reason) {
      located.failures.push_back({record, feature, offset, std::move(reason)});
    };
    const std::span<Location> row(located.locations.data() + record * specs_.size(), specs_.size());
    if (start > buffer.size() || size > buffer.size() - start) {
      fail(-1, 0, "the record lies outside the buffer");
      continue;
    }
    if (size > kLargestExample) {
      fail(-1, start, "the record is larger than 2 GiB, the most that an Example may have");
      continue;
    }
    if (!locator.locate(start, size, row)) {
      fail(-1, start, "the record is not a legal tf.train.Example");
      continue;
    }
    for (std::size_t feature = 0; feature < specs_.size(); ++feature) {
      if (plain_[feature].matches(row[feature])) continue;
      std::string reason =
          check_feature(buffer, specs_[feature], row[feature], located.totals[feature]);
      if (!reason.empty()) {
        // A feature that is not there has no place: say where its record is.
        fail(static_cast<int>(feature), std::max(start, row[feature].offset), std::move(reason));
        break;
      }
    }
  }
  // Failures are told in the order of the batch.
  std::ranges::sort(located.failures, {}, &Failure::record);
  return located;
}

}  // namespace tio
