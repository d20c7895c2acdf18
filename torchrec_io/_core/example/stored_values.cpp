#include "example/stored_values.h"

#include <iterator>

#include "example/sequence.h"

namespace tio {
namespace {

// Calls `count(record, bytes, location)` for each unit of a feature, which returns the number of
// its values, or nothing if it is invalid. Calls `fail(record)` for each record with an invalid
// unit.
template <class Count, class Fail>
UnitOffsets walk_units(const ExampleParser& parser, const Records& records,
                       const LocateResult& located, std::size_t feature, Count&& count,
                       Fail&& fail) {
  UnitOffsets units;
  const FeatureSpec& spec = parser.specs()[feature];
  for (std::size_t record = 0; record < records.size(); ++record) {
    const Bytes bytes = records[record];
    const Location& at = located.at(record, parser.slot(feature));
    const auto add_unit = [&](const Location& unit) {
      std::uint64_t values = 0;
      const bool is_valid = count(bytes, unit, values);
      units.values.push_back(units.values.back() + static_cast<std::int64_t>(values));
      return is_valid;
    };
    const bool is_valid =
        spec.in_lists ? walk_steps(bytes, at, stored_kind(spec.dtype), add_unit) : add_unit(at);
    if (!is_valid) fail(record);
    units.records.push_back(static_cast<std::int64_t>(units.values.size() - 1));
  }
  return units;
}

}  // namespace

UnitOffsets count_units(const ExampleParser& parser, const Records& records,
                        const LocateResult& located, std::size_t feature) {
  const auto count = [](Bytes record, const Location& unit, std::uint64_t& values) {
    ValueCount found;
    const bool is_valid = count_values(record, unit, found);
    values = found.values;
    return is_valid;
  };
  // The first pass has counted before: records that it accepted do not fail here.
  return walk_units(parser, records, located, feature, count, [](std::size_t) {});
}

ByteSpans find_spans(const ExampleParser& parser, const Records& records,
                     const LocateResult& located, std::size_t feature) {
  ByteSpans spans;
  const auto find = [&](Bytes record, const Location& unit, std::uint64_t& values) {
    const std::size_t before = spans.offsets.size();
    const bool is_valid = visit_values(record, unit, [&](Bytes value) {
      spans.offsets.push_back(value.data() - record.data());
      spans.sizes.push_back(static_cast<std::int64_t>(value.size()));
      return true;
    });
    values = spans.offsets.size() - before;
    return is_valid;
  };
  spans.units = walk_units(parser, records, located, feature, find, [](std::size_t) {});
  return spans;
}

StoredInts decode_ints(const ExampleParser& parser, const Records& records,
                       const LocateResult& located, std::size_t feature) {
  StoredInts ints;
  const auto decode = [&](Bytes record, const Location& unit, std::uint64_t& values) {
    const std::size_t before = ints.values.size();
    const bool is_valid = visit_values(record, unit, [&](Bytes payload) {
      VarintReader reader(payload);
      std::int64_t piece[64];
      while (!reader.done() && !reader.bad()) {
        const std::size_t count = reader.read(piece, std::size(piece));
        ints.values.insert(ints.values.end(), piece, piece + count);
      }
      return !reader.bad();
    });
    values = ints.values.size() - before;
    return is_valid;
  };
  const auto fail = [&](std::size_t record) {
    ints.failures.push_back(parser.explain_failure(record, records[record], feature));
  };
  ints.units = walk_units(parser, records, located, feature, decode, fail);
  return ints;
}

}  // namespace tio
