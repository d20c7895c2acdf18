#include "example/example.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "example/explain.h"
#include "records/record_check.h"
#include "records/record_locator.h"
#include "example/sequence.h"

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
  if (shape == Shape::aside && element != Element::int64 && element != Element::bytes) {
    return "an aside feature is of int64 or bytes";
  }
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

// What padding takes of the room for joined bytes.
void add_padding(const FeatureSpec& spec, std::size_t records, ColumnSize& size) {
  if (spec.shape != Shape::padded || spec.element != Element::bytes) return;
  size.bytes += (records * size.longest * spec.count - size.values) * spec.default_sizes[0];
}

// A record may have several failures: the first of them stays the first. (std::stable_sort takes
// memory by a call that Clang knows as deprecated.)
void sort_by_record(std::vector<Failure>& failures) {
  std::vector<std::size_t> order(failures.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(failures[i].record, i); });
  std::vector<Failure> sorted;
  sorted.reserve(failures.size());
  for (const std::size_t i : order) sorted.push_back(std::move(failures[i]));
  failures = std::move(sorted);
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
    const bool is_one = spec.count == 1;
    scalar_.push_back(is_one && spec.element == Element::int64     ? Scalar::int64
                      : is_one && spec.element == Element::float32 ? Scalar::float32
                                                                   : Scalar::none);
  }
  feature_of_.resize(slots_);
  for (std::size_t i = 0; i < specs_.size(); ++i) feature_of_[slot_of_[i]] = i;
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
  // Several columns of one stored feature are not worth a faster way.
  const bool may_foresee = slots_ == specs_.size();
  std::span<const std::size_t> left = records.order();
  std::size_t at_once = 1;  // the first record shows what to foresee
  while (!left.empty()) {
    const auto which = left.first(std::min(at_once, left.size()));
    left = left.subspan(which.size());
    tile.locations.assign(which.size() * slots_, Location());
    tile.failures.clear();
    locate_some(locator, records, which, Rows::of_tile, tile);
    if (tile.failures.empty() && failures.empty()) {
      fill_fixed(records, tile, which, Rows::of_tile, places, arena, failures);
    }
    failures.insert(failures.end(), tile.failures.begin(), tile.failures.end());
    const std::size_t foreseen =
        may_foresee ? parse_foreseen(locator, records, left, places, arena) : 0;
    left = left.subspan(foreseen);
    // Where little comes as foreseen, tiles are faster.
    at_once = foreseen >= at_once ? 1 : std::min(2 * at_once, kTile);
  }
  sort_by_record(failures);
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

Spans ExampleParser::spans(const Records& records, const Located& located,
                           std::size_t feature) const {
  Spans spans;
  Integers found =
      walk_units(records, located, feature, [&](Bytes record, const Location& at, Integers& units) {
        const std::size_t before = spans.offsets.size();
        const bool legal = visit_values(record, at, [&](Bytes value) {
          spans.offsets.push_back(value.data() - record.data());
          spans.sizes.push_back(static_cast<std::int64_t>(value.size()));
          return true;
        });
        units.added = static_cast<std::int64_t>(spans.offsets.size() - before);
        return legal;
      });
  spans.starts = std::move(found.offsets);
  spans.rows = std::move(found.rows);
  return spans;
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
