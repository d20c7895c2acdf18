// The second pass of the parser.
#include <algorithm>
#include <numeric>
#include <utility>

#include "example/column_writer.h"
#include "example/parser.h"
#include "example/record_locator.h"

namespace tio {

std::size_t ExampleParser::parse_predicted(const RecordLocator& locator, const Records& records,
                                           std::span<const std::size_t> which,
                                           std::span<const ColumnOffsets> columns,
                                           MutableBytes arena) const {
  const LocateResult nothing;
  std::vector<Failure> none;
  ColumnWriter writer(*this, records, nothing, arena, none);
  std::vector<std::size_t> seen_in(slots_, records.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::size_t record = which[i];
    const Bytes bytes = records[record];
    std::size_t seen = 0;
    const auto take = [&](const EntryPredictor& predictor, std::size_t offset, std::size_t size) {
      const auto slot = static_cast<std::size_t>(predictor.slot());
      // A second entry with one key needs the checks of `locate`.
      if (std::exchange(seen_in[slot], record) == record) return false;
      ++seen;
      const std::size_t feature = feature_of_[slot];
      if (plain_[feature].kind != predictor.kind()) return false;
      std::byte* column = arena.data() + columns[feature].data;
      switch (scalar_[feature]) {
        case Scalar::int64:
          return store_scalar<std::int64_t>(bytes, offset, size, column + 8 * record);
        case Scalar::float32: return store_scalar<float>(bytes, offset, size, column + 4 * record);
        case Scalar::none: break;
      }
      const Location at{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size),
                        Form::single, predictor.kind()};
      return plain_[feature].matches(at) &&
             writer.write_plain_row(feature, columns[feature], record, at);
    };
    if (bytes.size() > kMaxRecordBytes || !locator.walk_predicted(bytes, take) || seen != slots_) {
      return i;
    }
  }
  return which.size();
}

void ExampleParser::fill_fixed(const Records& records, const LocateResult& located,
                               std::span<const std::size_t> which, Rows rows,
                               std::span<const ColumnOffsets> columns, MutableBytes arena,
                               std::vector<Failure>& failures) const {
  ColumnWriter writer(*this, records, located, arena, failures);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (has_fixed_rows(i)) writer.write_fixed(i, columns[i], which, rows == Rows::of_records);
  }
}

std::vector<Failure> ExampleParser::fill(const Records& records, const LocateResult& located,
                                         std::span<const ColumnOffsets> columns,
                                         MutableBytes arena) const {
  std::vector<Failure> failures;
  // Locations are stored by record, but values by column. For this many records at a time, the
  // locations stay in the fastest cache while every column is written.
  constexpr std::size_t kTile = 32;
  std::size_t which[kTile];
  for (std::size_t begin = 0; begin < located.records; begin += kTile) {
    const std::size_t count = std::min(kTile, located.records - begin);
    std::iota(which, which + count, begin);
    fill_fixed(records, located, {which, count}, Rows::of_records, columns, arena, failures);
  }
  ColumnWriter writer(*this, records, located, arena, failures);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!has_fixed_rows(i)) writer.write(i, columns[i]);
  }
  return failures;
}

}  // namespace tio
