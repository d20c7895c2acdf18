#include "example/parser.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "example/explain.h"
#include "example/record_check.h"
#include "example/record_locator.h"

namespace tio {
namespace {

// Adds the bytes of the padding values to the room for joined bytes.
void add_padding(const FeatureSpec& spec, std::size_t records, ColumnSize& size) {
  if (spec.column_type != ColumnType::padded || spec.dtype != Dtype::bytes) return;
  size.bytes += (records * size.longest * spec.count - size.values) * spec.default_sizes[0];
}

// Sorts failures by record. Several failures of one record keep their order. (std::stable_sort
// allocates memory through a function that Clang reports as deprecated.)
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
    const Kind kind = stored_kind(spec.dtype);
    plain_.push_back({.possible = spec.column_type == ColumnType::fixed && kind != Kind::bytes,
                      .kind = kind,
                      .min_bytes = kind == Kind::ints ? spec.count : 4 * spec.count,
                      .max_bytes = kind == Kind::ints ? UINT64_MAX : 4 * spec.count});
    const bool is_one = spec.count == 1;
    scalar_.push_back(is_one && spec.dtype == Dtype::int64     ? Scalar::int64
                      : is_one && spec.dtype == Dtype::float32 ? Scalar::float32
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
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!has_fixed_rows(i)) return false;
  }
  return true;
}

bool ExampleParser::has_fixed_rows(std::size_t feature) const {
  return plain_[feature].possible || specs_[feature].is_copied();
}

void ExampleParser::locate_some(RecordLocator& locator, const Records& records,
                                std::span<const std::size_t> which, Rows rows,
                                LocateResult& located) const {
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::size_t record = which[i];
    const Bytes bytes = records[record];
    const std::size_t number = rows == Rows::of_records ? record : i;
    const std::span<Location> row(located.locations.data() + number * slots_, slots_);
    if (bytes.size() > kMaxRecordBytes) {
      located.failures.push_back({record, std::nullopt, std::nullopt,
                                  "the record is larger than 2 GiB, the limit for an Example"});
      continue;
    }
    if (!locator.locate(bytes, row)) {
      located.failures.push_back(explain_failure(record, bytes, std::nullopt));
      continue;
    }
    for (std::size_t feature = 0; feature < specs_.size(); ++feature) {
      const Location& at = row[slot_of_[feature]];
      if (plain_[feature].matches(at)) continue;
      RecordCheck check(bytes);
      if (check.check(specs_[feature], at, located.sizes[feature])) continue;
      if (check.reason.empty()) {
        located.failures.push_back(explain_failure(record, bytes, feature));
      } else {
        located.failures.push_back({record, feature, check.offset, std::move(check.reason)});
      }
      break;
    }
  }
}

LocateResult ExampleParser::locate(const Records& records) const {
  LocateResult located;
  located.records = records.size();
  located.slots = slots_;
  located.locations.resize(records.size() * slots_);
  located.sizes.resize(specs_.size());
  RecordLocator locator(*this);
  locate_some(locator, records, records.order(), Rows::of_records, located);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    add_padding(specs_[i], records.size(), located.sizes[i]);
  }
  std::ranges::sort(located.failures, {}, &Failure::record);
  return located;
}

bool ExampleParser::parse_fixed(const Records& records, std::span<const ColumnOffsets> columns,
                                MutableBytes arena, std::vector<Failure>& failures) const {
  constexpr std::size_t kTile = 32;
  LocateResult tile;
  tile.records = records.size();
  tile.sizes.resize(specs_.size());
  if (!is_fixed() || !fits(tile, columns, arena)) return false;
  tile.slots = slots_;
  RecordLocator locator(*this);
  // Several columns of one stored feature are too rare for the fast path, which has numbers alone.
  const bool can_predict =
      slots_ == specs_.size() && std::ranges::all_of(plain_, &PlainLocation::possible);
  std::span<const std::size_t> left = records.order();
  std::size_t at_once = 1;  // predictions are learned from the first record
  while (!left.empty()) {
    const auto which = left.first(std::min(at_once, left.size()));
    left = left.subspan(which.size());
    tile.locations.assign(which.size() * slots_, Location());
    tile.failures.clear();
    locate_some(locator, records, which, Rows::of_tile, tile);
    if (tile.failures.empty() && failures.empty()) {
      fill_fixed(records, tile, which, Rows::of_tile, columns, arena, failures);
    }
    failures.insert(failures.end(), tile.failures.begin(), tile.failures.end());
    const std::size_t predicted =
        can_predict ? parse_predicted(locator, records, left, columns, arena) : 0;
    left = left.subspan(predicted);
    // If few records are as predicted, tiles are faster.
    at_once = predicted >= at_once ? 1 : std::min(2 * at_once, kTile);
  }
  sort_by_record(failures);
  return true;
}

std::optional<Failure> ExampleParser::find_invalid(std::size_t record, Bytes bytes,
                                                   std::optional<std::size_t> feature) const {
  const auto fault = explain(*this, bytes);
  if (!fault) return std::nullopt;
  if (!fault->slot) {
    feature = std::nullopt;
  } else if (!feature || slot_of_[*feature] != *fault->slot) {
    const auto found = std::ranges::find(slot_of_, *fault->slot);
    feature = static_cast<std::size_t>(found - slot_of_.begin());
  }
  return Failure{record, feature, fault->offset, fault->reason};
}

Failure ExampleParser::explain_failure(std::size_t record, Bytes bytes,
                                       std::optional<std::size_t> feature) const {
  auto failure = find_invalid(record, bytes, feature);
  if (failure) return std::move(*failure);
  return {record, feature, std::nullopt, kInvalidRecord};  // the bytes have changed meanwhile
}

}  // namespace tio
