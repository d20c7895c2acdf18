// Room for the columns of a batch, and what stands in them once they are filled.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "encode.h"
#include "example/example.h"
#include "specs.h"

namespace tio::test {

// What a record has of a feature: all its values, and how many of them each unit holds. A unit is
// a step of a feature list, a part of a padded feature, or all of any other feature.
struct Cell {
  Values values;
  std::vector<std::uint64_t> units;

  bool operator==(const Cell&) const = default;
};

// An arena with the places of all columns, and bytes between them that nobody may touch.
class Arena {
 public:
  Arena(const ExampleParser& parser, const Located& located) {
    for (std::size_t i = 0; i < parser.specs().size(); ++i) {
      places_.push_back(place(parser.specs()[i], located.records, located.sizes[i]));
    }
    bytes_.assign(end_, kUntouched);
  }

  MutableBytes bytes() { return bytes_; }
  const std::vector<ColumnPlace>& places() const { return places_; }

  bool gaps_untouched() const {
    std::size_t at = 0;
    for (const auto& [begin, end] : taken_) {
      // Compared at once: fuzzers count every comparison there is.
      if (std::memcmp(bytes_.data() + at, untouched_.data(), begin - at) != 0) return false;
      at = end;
    }
    return true;
  }

  // Entry i of a table of offsets.
  std::uint64_t offset(std::uint64_t table, std::uint64_t i, bool narrow = false) const {
    return narrow ? load<std::uint32_t>(bytes_, table + i * 4)
                  : load<std::uint64_t>(bytes_, table + i * 8);
  }
  bool operator==(const Arena& other) const { return bytes_ == other.bytes_; }
  std::string text(std::uint64_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

 private:
  static constexpr std::byte kUntouched{0xa5};
  static constexpr std::uint64_t kGap = 64;

  ColumnPlace place(const FeatureSpec& spec, std::uint64_t records, const ColumnSize& size) {
    ColumnPlace place;
    const std::uint64_t split = spec.narrow_splits ? 4 : 8;
    std::uint64_t values = size.values;
    switch (spec.shape) {
      case Shape::span:
      case Shape::aside: return place;
      case Shape::raw:
      case Shape::resized: place.data = take(records * spec.count); return place;
      case Shape::fixed: values = records * spec.count; break;
      case Shape::flat: break;
      case Shape::ragged:
        place.rows = take((records + 1) * split);
        if (spec.in_lists) place.steps = take((size.steps + 1) * split);
        break;
      case Shape::padded:
        place.rows = take(records * 8);
        values = records * size.longest * spec.count;
        break;
    }
    if (spec.element == Element::bytes) {
      place.values = take((values + 1) * 8);
      place.data = take(size.bytes);
    } else {
      place.data = take(values * element_bytes(spec.element));
    }
    return place;
  }

  std::uint64_t take(std::uint64_t size) {
    const std::uint64_t at = (end_ + kGap + 7) & ~std::uint64_t{7};
    end_ = at + size;
    taken_.emplace_back(at, end_);
    return at;
  }

  std::vector<std::byte> bytes_;
  std::vector<std::byte> untouched_ = std::vector<std::byte>(kGap + 8, kUntouched);
  std::vector<ColumnPlace> places_;
  std::vector<std::pair<std::size_t, std::size_t>> taken_;
  std::uint64_t end_ = 0;
};

// Reads one feature back, record by record, whatever its shape.
class ColumnReader {
 public:
  ColumnReader(const ExampleParser& parser, const Records& records, const Located& located,
               const Arena& arena, std::size_t feature)
      : parser_(parser),
        records_(records),
        located_(located),
        arena_(arena),
        feature_(feature),
        spec_(parser.specs()[feature]),
        place_(arena.places()[feature]) {
    if (spec_.shape == Shape::aside && spec_.element == Element::bytes) {
      apart_ = parser.counts(records, located, feature);
      spans_ = parser.spans(records, located, feature);
      CHECK(spans_.starts == apart_.offsets && spans_.rows == apart_.rows);
      CHECK_EQ(spans_.offsets.size(), spans_.sizes.size());
    } else if (spec_.shape == Shape::aside) {
      std::vector<Failure> illegal;
      apart_ = parser.integers(records, located, feature, illegal);
      CHECK(illegal.empty());
    } else {
      apart_ = parser.counts(records, located, feature);
    }
    CHECK_EQ(apart_.rows.size(), records.size() + 1);
    if (spec_.shape == Shape::ragged || spec_.shape == Shape::flat) {
      CHECK_EQ(static_cast<std::uint64_t>(apart_.offsets.back()), located.sizes[feature].values);
    }
    if (spec_.in_lists) {
      CHECK_EQ(static_cast<std::uint64_t>(apart_.rows.back()), located.sizes[feature].steps);
    }
  }

  Cell read(std::size_t record) const {
    switch (spec_.shape) {
      case Shape::span: return read_span(record);
      case Shape::raw:
      case Shape::resized:
        return {{arena_.text(place_.data + record * spec_.count, spec_.count)}, {1}};
      case Shape::fixed: return one_unit(record * spec_.count, (record + 1) * spec_.count);
      case Shape::padded: return read_padded(record);
      case Shape::ragged: return read_ragged(record);
      case Shape::flat:
      case Shape::aside: return read_apart(record);
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
    if (spec_.element != Element::bytes) {
      const std::size_t size = element_bytes(spec_.element);
      return arena_.text(place_.data + i * size, size);
    }
    const std::uint64_t from = arena_.offset(place_.values, i);
    const std::uint64_t to = arena_.offset(place_.values, i + 1);
    if (!CHECK(from <= to && to <= located_.sizes[feature_].bytes)) return "";
    return arena_.text(place_.data + from, to - from);
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
    const std::uint64_t parts = arena_.offset(place_.rows, record);
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
      return arena_.offset(table, i, spec_.narrow_splits);
    };
    if (record == 0) CHECK_EQ(split(place_.rows, 0), 0U);
    const std::uint64_t first = split(place_.rows, record);
    const std::uint64_t last = split(place_.rows, record + 1);
    const ColumnSize& size = located_.sizes[feature_];
    if (!CHECK(first <= last && last <= (spec_.in_lists ? size.steps : size.values))) return {};
    if (!spec_.in_lists) return one_unit(first, last);
    if (record == 0) CHECK_EQ(split(place_.steps, 0), 0U);
    Cell cell;
    for (std::uint64_t step = first; step < last; ++step) {
      add_unit(cell, split(place_.steps, step), split(place_.steps, step + 1));
      CHECK_EQ(cell.units.back(), units_apart(record, step - first));
    }
    return cell;
  }

  // Values of a record's unit, as `counts` or `integers` has it.
  std::uint64_t units_apart(std::size_t record, std::uint64_t unit) const {
    const auto i = static_cast<std::uint64_t>(apart_.rows[record]) + unit;
    return static_cast<std::uint64_t>(apart_.offsets[i + 1] - apart_.offsets[i]);
  }

  Cell read_apart(std::size_t record) const {
    Cell cell;
    for (auto unit = apart_.rows[record]; unit < apart_.rows[record + 1]; ++unit) {
      const auto i = static_cast<std::size_t>(unit);
      const auto first = static_cast<std::uint64_t>(apart_.offsets[i]);
      const auto last = static_cast<std::uint64_t>(apart_.offsets[i + 1]);
      cell.units.push_back(last - first);
      for (std::uint64_t value = first; value < last; ++value) {
        cell.values.push_back(spec_.shape == Shape::flat ? element(value)
                                                         : read_aside(record, value));
      }
    }
    return cell;
  }

  std::string read_aside(std::size_t record, std::uint64_t value) const {
    if (spec_.element != Element::bytes) return little_endian(apart_.values[value]);
    const Bytes bytes = records_[record].subspan(static_cast<std::size_t>(spans_.offsets[value]),
                                                 static_cast<std::size_t>(spans_.sizes[value]));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  const ExampleParser& parser_;
  const Records& records_;
  const Located& located_;
  const Arena& arena_;
  std::size_t feature_;
  const FeatureSpec& spec_;
  ColumnPlace place_;
  Integers apart_;
  Spans spans_;  // of what is aside and bytes
};

}  // namespace tio::test
