// An arena for the columns of a batch, and their values after it is filled.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "encode.h"
#include "example/parser.h"
#include "example/stored_values.h"
#include "specs.h"

namespace tio::test {

// The values of a feature in a record, and the number of values of each unit. A unit is a step of a
// feature list, a part of a padded feature, or all of any other feature.
struct Cell {
  Values values;
  std::vector<std::uint64_t> units;

  bool operator==(const Cell&) const = default;
};

// An arena with room for all columns, and bytes between them that must not change.
class Arena {
 public:
  Arena(const ExampleParser& parser, const LocateResult& located) {
    for (std::size_t i = 0; i < parser.specs().size(); ++i) {
      columns_.push_back(take_room(parser.specs()[i], located.records, located.sizes[i]));
    }
    bytes_.assign(end_, kUntouched);
  }

  MutableBytes bytes() { return bytes_; }
  const std::vector<ColumnOffsets>& columns() const { return columns_; }

  bool gaps_untouched() const {
    std::size_t at = 0;
    for (const auto& [begin, end] : taken_) {
      // One comparison, because fuzzers count each of them.
      if (std::memcmp(bytes_.data() + at, untouched_.data(), begin - at) != 0) return false;
      at = end;
    }
    return true;
  }

  // Entry i of a table of offsets.
  std::uint64_t offset(std::uint64_t table, std::uint64_t i, bool is_int32 = false) const {
    return is_int32 ? load<std::uint32_t>(bytes_, table + i * 4)
                    : load<std::uint64_t>(bytes_, table + i * 8);
  }
  bool operator==(const Arena& other) const { return bytes_ == other.bytes_; }
  std::string text(std::uint64_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

 private:
  static constexpr std::byte kUntouched{0xa5};
  static constexpr std::uint64_t kGap = 64;

  ColumnOffsets take_room(const FeatureSpec& spec, std::uint64_t records, const ColumnSize& size) {
    ColumnOffsets column;
    const std::uint64_t split = spec.int32_splits ? 4 : 8;
    std::uint64_t values = size.values;
    switch (spec.column_type) {
      case ColumnType::span:
      case ColumnType::on_request: return column;
      case ColumnType::raw_bytes:
      case ColumnType::resized_bytes: column.data = take(records * spec.count); return column;
      case ColumnType::fixed: values = records * spec.count; break;
      case ColumnType::flat: break;
      case ColumnType::ragged:
        column.rows = take((records + 1) * split);
        if (spec.in_lists) column.steps = take((size.steps + 1) * split);
        break;
      case ColumnType::padded:
        column.rows = take(records * 8);
        values = records * size.longest * spec.count;
        break;
    }
    if (spec.dtype == Dtype::bytes) {
      column.values = take((values + 1) * 8);
      column.data = take(size.bytes);
    } else {
      column.data = take(values * element_bytes(spec.dtype));
    }
    return column;
  }

  std::uint64_t take(std::uint64_t size) {
    const std::uint64_t at = (end_ + kGap + 7) & ~std::uint64_t{7};
    end_ = at + size;
    taken_.emplace_back(at, end_);
    return at;
  }

  std::vector<std::byte> bytes_;
  std::vector<std::byte> untouched_ = std::vector<std::byte>(kGap + 8, kUntouched);
  std::vector<ColumnOffsets> columns_;
  std::vector<std::pair<std::size_t, std::size_t>> taken_;
  std::uint64_t end_ = 0;
};

// Reads one feature back, record by record, for any column type.
class ColumnReader {
 public:
  ColumnReader(const ExampleParser& parser, const Records& records, const LocateResult& located,
               const Arena& arena, std::size_t feature)
      : parser_(parser),
        records_(records),
        located_(located),
        arena_(arena),
        feature_(feature),
        spec_(parser.specs()[feature]),
        column_(arena.columns()[feature]) {
    units_ = count_units(parser, records, located, feature);
    if (spec_.column_type == ColumnType::on_request && spec_.dtype == Dtype::bytes) {
      spans_ = find_spans(parser, records, located, feature);
      CHECK(spans_.units.values == units_.values && spans_.units.records == units_.records);
      CHECK_EQ(spans_.offsets.size(), spans_.sizes.size());
    } else if (spec_.column_type == ColumnType::on_request) {
      StoredInts ints = decode_ints(parser, records, located, feature);
      CHECK(ints.failures.empty());
      CHECK(ints.units.values == units_.values && ints.units.records == units_.records);
      ints_ = std::move(ints.values);
    }
    CHECK_EQ(units_.records.size(), records.size() + 1);
    if (spec_.column_type == ColumnType::ragged || spec_.column_type == ColumnType::flat) {
      CHECK_EQ(static_cast<std::uint64_t>(units_.values.back()), located.sizes[feature].values);
    }
    if (spec_.in_lists) {
      CHECK_EQ(static_cast<std::uint64_t>(units_.records.back()), located.sizes[feature].steps);
    }
  }

  Cell read(std::size_t record) const {
    switch (spec_.column_type) {
      case ColumnType::span: return read_span(record);
      case ColumnType::raw_bytes:
      case ColumnType::resized_bytes:
        return {{arena_.text(column_.data + record * spec_.count, spec_.count)}, {1}};
      case ColumnType::fixed: return one_unit(record * spec_.count, (record + 1) * spec_.count);
      case ColumnType::padded: return read_padded(record);
      case ColumnType::ragged: return read_ragged(record);
      case ColumnType::flat:
      case ColumnType::on_request: return read_units(record);
    }
    return {};
  }

 private:
  Cell read_span(std::size_t record) const {
    Cell cell{{}, {1}};
    const Location& at = located_.at(record, parser_.slot(feature_));
    visit_values(records_[record], at, [&](Bytes value) {
      cell.values.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
      return true;
    });
    return cell;
  }

  std::string element(std::uint64_t i) const {
    if (spec_.dtype != Dtype::bytes) {
      const std::size_t size = element_bytes(spec_.dtype);
      return arena_.text(column_.data + i * size, size);
    }
    const std::uint64_t from = arena_.offset(column_.values, i);
    const std::uint64_t to = arena_.offset(column_.values, i + 1);
    if (!CHECK(from <= to && to <= located_.sizes[feature_].bytes)) return "";
    return arena_.text(column_.data + from, to - from);
  }

  void add_unit(Cell& cell, std::uint64_t first, std::uint64_t last) const {
    for (std::uint64_t i = first; i < last; ++i) cell.values.push_back(element(i));
    cell.units.push_back(last - first);
  }

  Cell one_unit(std::uint64_t first, std::uint64_t last) const {
    Cell cell;
    add_unit(cell, first, last);
    return cell;
  }

  Cell read_padded(std::size_t record) const {
    const std::uint64_t most = located_.sizes[feature_].longest;
    const std::uint64_t parts = arena_.offset(column_.rows, record);
    Cell cell;
    if (!CHECK(parts <= most)) return cell;
    const std::uint64_t first = record * most * spec_.count;
    for (std::uint64_t i = 0; i < parts; ++i) {
      add_unit(cell, first + i * spec_.count, first + (i + 1) * spec_.count);
    }
    const std::string fill(reinterpret_cast<const char*>(spec_.default_data.data()),
                           spec_.default_data.size());
    for (std::uint64_t i = parts * spec_.count; i < most * spec_.count; ++i) {
      CHECK_EQ(element(first + i), fill);
    }
    return cell;
  }

  Cell read_ragged(std::size_t record) const {
    const auto split = [&](std::uint64_t table, std::uint64_t i) {
      return arena_.offset(table, i, spec_.int32_splits);
    };
    if (record == 0) CHECK_EQ(split(column_.rows, 0), 0U);
    const std::uint64_t first = split(column_.rows, record);
    const std::uint64_t last = split(column_.rows, record + 1);
    const ColumnSize& size = located_.sizes[feature_];
    if (!CHECK(first <= last && last <= (spec_.in_lists ? size.steps : size.values))) return {};
    if (!spec_.in_lists) return one_unit(first, last);
    if (record == 0) CHECK_EQ(split(column_.steps, 0), 0U);
    Cell cell;
    for (std::uint64_t step = first; step < last; ++step) {
      add_unit(cell, split(column_.steps, step), split(column_.steps, step + 1));
      CHECK_EQ(cell.units.back(), count_unit(record, step - first));
    }
    return cell;
  }

  // The number of values of a unit of a record, as count_units has it.
  std::uint64_t count_unit(std::size_t record, std::uint64_t unit) const {
    const auto i = static_cast<std::uint64_t>(units_.records[record]) + unit;
    return static_cast<std::uint64_t>(units_.values[i + 1] - units_.values[i]);
  }

  Cell read_units(std::size_t record) const {
    Cell cell;
    for (auto unit = units_.records[record]; unit < units_.records[record + 1]; ++unit) {
      const auto i = static_cast<std::size_t>(unit);
      const auto first = static_cast<std::uint64_t>(units_.values[i]);
      const auto last = static_cast<std::uint64_t>(units_.values[i + 1]);
      cell.units.push_back(last - first);
      for (std::uint64_t value = first; value < last; ++value) {
        cell.values.push_back(spec_.column_type == ColumnType::flat
                                  ? element(value)
                                  : read_on_request(record, value));
      }
    }
    return cell;
  }

  std::string read_on_request(std::size_t record, std::uint64_t value) const {
    if (spec_.dtype != Dtype::bytes) return little_endian(ints_[value]);
    const Bytes bytes = records_[record].subspan(static_cast<std::size_t>(spans_.offsets[value]),
                                                 static_cast<std::size_t>(spans_.sizes[value]));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  const ExampleParser& parser_;
  const Records& records_;
  const LocateResult& located_;
  const Arena& arena_;
  std::size_t feature_;
  const FeatureSpec& spec_;
  ColumnOffsets column_;
  UnitOffsets units_;
  std::vector<std::int64_t> ints_;  // of an on_request column of int64
  ByteSpans spans_;                 // of an on_request column of bytes
};

}  // namespace tio::test
