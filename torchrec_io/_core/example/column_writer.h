// The second pass: writes the located values of a batch into the columns of its arena.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "example/parser.h"
#include "example/value_writer.h"

namespace tio {

// Writes the columns of a batch, one feature at a time.
class ColumnWriter {
 public:
  ColumnWriter(const ExampleParser& parser, const Records& records, const LocateResult& located,
               MutableBytes arena, std::vector<Failure>& failures)
      : parser_(parser), records_(records), located_(located), arena_(arena), failures_(failures) {}

  // Writes a column whose rows have a fixed size for some records. With `rows_are_records`, the
  // locations of record i are in row i, otherwise in the row of its position in `which`.
  void write_fixed(std::size_t feature, const ColumnOffsets& offsets,
                   std::span<const std::size_t> which, bool rows_are_records) {
    begin(feature, offsets);
    const auto location_of = [&](std::size_t i) -> const Location& {
      return location(rows_are_records ? which[i] : i);
    };
    if (spec_->is_copied()) {
      for (std::size_t i = 0; i < which.size(); ++i) write_raw_row(which[i], location_of(i));
      return;
    }
    with_dtype([&]<class T>(T) {
      for (std::size_t i = 0; i < which.size(); ++i) write_fixed_row<T>(which[i], location_of(i));
    });
  }

  // Writes the row of one record in a fixed column of numbers. Returns false if its values do not
  // fit, without a failure.
  bool write_plain_row(std::size_t feature, const ColumnOffsets& offsets, std::size_t record,
                       const Location& at) {
    begin(feature, offsets);
    bool good = false;
    with_dtype([&]<class T>(T) {
      ElementOutput<T> out{arena_.data() + offsets.data + record * spec_->count * sizeof(T),
                           spec_->count};
      good = put_feature(records_[record], at, out) == WriteResult::good &&
             out.written == spec_->count;
    });
    return good;
  }

  // Writes any other column for all records.
  void write(std::size_t feature, const ColumnOffsets& offsets) {
    begin(feature, offsets);
    if (!spec_->has_column) return;
    switch (spec_->column_type) {
      case ColumnType::fixed: return write_bytes();
      case ColumnType::ragged:
      case ColumnType::flat:
      case ColumnType::padded: break;
      case ColumnType::raw_bytes:
      case ColumnType::resized_bytes:
      case ColumnType::span:
      case ColumnType::on_request: return;
    }
    if (spec_->dtype == Dtype::bytes) return write_bytes();
    with_dtype([&]<class T>(T) {
      if (spec_->column_type == ColumnType::padded) return write_padded<T>();
      write_ragged<T>();
    });
  }

 private:
  void begin(std::size_t feature, const ColumnOffsets& offsets) {
    feature_ = feature;
    spec_ = &parser_.specs()[feature];
    offsets_ = offsets;
  }

  template <class Write>
  void with_dtype(Write&& write) {
    visit_element(spec_->dtype, write);
  }

  const Location& location(std::size_t row) const {
    return located_.at(row, parser_.slot(feature_));
  }
  const ColumnSize& size() const { return located_.sizes[feature_]; }

  // ---- failures ----

  void fail(std::size_t record, std::optional<std::uint64_t> offset, std::string reason) {
    failures_.push_back({record, feature_, offset, std::move(reason)});
  }

  void fail(std::size_t record, const Location& at, WriteResult result) {
    if (result == WriteResult::out_of_range) {
      return fail(record, at.offset, "a value does not fit in the dtype that the schema declares");
    }
    if (auto failure = parser_.find_invalid(record, records_[record], feature_)) {
      failures_.push_back(std::move(*failure));
      return;
    }
    if (spec_->column_type == ColumnType::padded && spec_->in_lists && fail_step(record, at))
      return;
    ValueCount count;
    count_values(records_[record], at, count);
    fail_count(record, at, "the record", count.values);
  }

  // Reports the first step with a wrong number of values. Returns false if there is none.
  bool fail_step(std::size_t record, const Location& list) {
    std::size_t number = 0;
    return !walk_steps(records_[record], list, stored_kind(spec_->dtype), [&](Location step) {
      ValueCount count;
      count_values(records_[record], step, count);
      if (count.values == spec_->count) return ++number != 0;
      fail_count(record, step, "step " + std::to_string(number), count.values);
      return false;
    });
  }

  void fail_count(std::size_t record, const Location& at, const std::string& what,
                  std::uint64_t count) {
    fail(record, at.offset,
         what + " holds " + std::to_string(count) + " " + kind_name(stored_kind(spec_->dtype)) +
             (count == 1 ? " value" : " values") + ", the schema wants " +
             std::to_string(spec_->count));
  }

  // ---- columns of numbers ----

  template <class T>
  void write_fixed_row(std::size_t record, const Location& at) {
    ElementOutput<T> out{arena_.data() + offsets_.data + record * spec_->count * sizeof(T),
                         spec_->count};
    if (at.form == Form::missing) {
      std::copy(spec_->default_data.begin(), spec_->default_data.end(), out.data);
      return;
    }
    WriteResult result = put_feature(records_[record], at, out);
    if (result == WriteResult::good && out.written != spec_->count)
      result = WriteResult::wrong_count;
    if (result != WriteResult::good) fail(record, at, result);
  }

  // Writes the values of one record. For a feature list, calls `on_steps(steps, values)` after
  // `steps` steps of `values` values each, which returns whether these numbers are valid.
  template <class T, class OnSteps>
  WriteResult put_record(std::size_t record, const Location& at, ElementOutput<T>& out,
                         OnSteps&& on_steps) {
    const Bytes bytes = records_[record];
    if (!spec_->in_lists) return put_feature(bytes, at, out);
    WriteResult result = WriteResult::good;
    const auto put_step = [&](Location step) {
      const std::size_t before = out.written;
      result = put_feature(bytes, step, out);
      return result == WriteResult::good && on_steps(1, out.written - before);
    };
    const auto put_run = [&](const StepRun& run) {
      const std::size_t scalars = put_scalars(bytes, run, out);
      if (!on_steps(scalars, 1)) return false;
      for (std::size_t i = scalars; i < run.count; ++i) {
        if (!put_step(run[i])) return false;
      }
      return true;
    };
    const bool is_valid = walk_steps(bytes, at, stored_kind(spec_->dtype), put_run, put_step);
    return is_valid || result != WriteResult::good ? result : WriteResult::malformed;
  }

  template <class T>
  void write_ragged() {
    ElementOutput<T> out{arena_.data() + offsets_.data, size().values};
    std::uint64_t steps = 0;
    std::uint64_t end = 0;  // of the previous step
    const auto on_steps = [&](std::size_t count, std::size_t values) {
      const bool fits = store_steps(steps, count, end, values);
      steps += count;
      end += count * values;
      return fits;
    };
    for (std::size_t record = 0; record < located_.records; ++record) {
      store_row(record, steps, out.written);
      const WriteResult result = put_record(record, location(record), out, on_steps);
      if (result != WriteResult::good) fail(record, location(record), result);
    }
    store_row(located_.records, steps, out.written);
    check_splits(std::max(steps, std::uint64_t{out.written}));
  }

  template <class T>
  void write_padded() {
    const std::uint64_t room = size().longest * spec_->count;
    const auto on_steps = [&](std::size_t count, std::size_t values) {
      return count == 0 || values == spec_->count;
    };
    for (std::size_t record = 0; record < located_.records; ++record) {
      ElementOutput<T> out{arena_.data() + offsets_.data + record * room * sizeof(T), room};
      WriteResult result = put_record(record, location(record), out, on_steps);
      if (out.written % spec_->count != 0) result = WriteResult::wrong_count;
      if (result != WriteResult::good) fail(record, location(record), result);
      store(arena_, offsets_.rows + record * 8,
            static_cast<std::int64_t>(out.written / spec_->count));
      pad(out);
    }
  }

  template <class T>
  void pad(ElementOutput<T>& out) {
    T fill;
    std::memcpy(&fill, spec_->default_data.data(), sizeof(T));
    while (out.put(fill)) {
    }
  }

  // ---- offsets ----

  void store_offset(std::uint64_t at, std::uint64_t number, std::uint64_t offset) {
    if (spec_->int32_splits) {
      store(arena_, at + number * 4, static_cast<std::int32_t>(offset));
    } else {
      store(arena_, at + number * 8, static_cast<std::int64_t>(offset));
    }
  }

  // Stores where the rows of a record start. For a feature list, also where its first step starts.
  void store_row(std::size_t record, std::uint64_t steps, std::uint64_t values) {
    if (spec_->column_type != ColumnType::ragged) return;
    store_offset(offsets_.rows, record, spec_->in_lists ? steps : values);
    if (record == 0 && spec_->in_lists) store_offset(offsets_.steps, 0, values);
  }

  // Stores the ends of `count` steps of `values` values each, from step number `first` on, which
  // starts at value `start`. Returns false if there are more steps than the first pass counted.
  bool store_steps(std::uint64_t first, std::uint64_t count, std::uint64_t start,
                   std::uint64_t values) {
    if (spec_->column_type != ColumnType::ragged) return true;
    if (count > size().steps - first) return false;
    for (std::uint64_t i = 1; i <= count; ++i) {
      store_offset(offsets_.steps, first + i, start + i * values);
    }
    return true;
  }

  void check_splits(std::uint64_t last) {
    if (spec_->column_type == ColumnType::ragged && spec_->int32_splits && last > INT32_MAX) {
      fail(located_.records - 1, std::nullopt,
           "the batch has more values than int32 row splits can address");
    }
  }

  // ---- columns of bytes ----

  void write_bytes() {
    std::uint64_t values = 0;
    std::uint64_t bytes = 0;
    std::uint64_t steps = 0;
    const std::uint64_t limit = max_bytes_values();
    const auto put = [&](Bytes value) {
      if (values == limit || value.size() > size().bytes - bytes) return false;
      store(arena_, offsets_.values + values * 8, static_cast<std::int64_t>(bytes));
      std::copy(value.begin(), value.end(),
                arena_.begin() + static_cast<std::ptrdiff_t>(offsets_.data + bytes));
      ++values;
      bytes += value.size();
      return true;
    };
    for (std::size_t record = 0; record < located_.records; ++record) {
      const Bytes whole = records_[record];
      const Location& at = location(record);
      const std::uint64_t first = values;
      store_row(record, steps, values);
      bool good = true;
      if (at.form == Form::missing && spec_->column_type == ColumnType::fixed) {
        good = put_default(put);
      } else if (spec_->in_lists) {
        good = walk_steps(whole, at, Kind::bytes, [&](Location step) {
          if (!visit_values(whole, step, put)) return false;
          return store_steps(steps++, 1, values, 0);
        });
      } else {
        good = visit_values(whole, at, put);
      }
      if (spec_->column_type == ColumnType::padded) {
        store(arena_, offsets_.rows + record * 8,
              static_cast<std::int64_t>((values - first) / spec_->count));
        while (good && values < first + size().longest * spec_->count) good = put_default(put);
      }
      if (!good) fail(record, at, WriteResult::malformed);
    }
    store_row(located_.records, steps, values);
    check_splits(std::max(steps, values));
    store(arena_, offsets_.values + values * 8, static_cast<std::int64_t>(bytes));
  }

  std::uint64_t max_bytes_values() const {
    if (spec_->column_type != ColumnType::padded) return size().values;
    return located_.records * size().longest * spec_->count;
  }

  template <class Put>
  bool put_default(const Put& put) {
    Cursor cursor(spec_->default_data);
    for (const auto bytes : spec_->default_sizes) {
      Bytes value;
      if (!cursor.read_bytes(bytes, value) || !put(value)) return false;
    }
    return true;
  }

  void write_raw_row(std::size_t record, const Location& at) {
    const auto target = arena_.subspan(offsets_.data + record * spec_->count, spec_->count);
    bool is_written = false;
    visit_values(records_[record], at, [&](Bytes value) {
      if (spec_->column_type == ColumnType::raw_bytes && value.size() != spec_->count) return false;
      const Bytes kept = value.first(std::min<std::size_t>(value.size(), spec_->count));
      const auto end = std::copy(kept.begin(), kept.end(), target.begin());
      std::fill(end, target.end(), std::byte{0});
      is_written = true;
      return true;
    });
    if (!is_written) fail(record, at.offset, "the value changed while it was read");
  }

  const ExampleParser& parser_;
  const Records& records_;
  const LocateResult& located_;
  MutableBytes arena_;
  std::vector<Failure>& failures_;
  std::size_t feature_ = 0;
  const FeatureSpec* spec_ = nullptr;
  ColumnOffsets offsets_;
};

}  // namespace tio
