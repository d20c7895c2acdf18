// The second pass: from located values to columns in the arena.
#include <algorithm>
#include <concepts>
#include <utility>

#include "wire/cast.h"
#include "example/example.h"
#include "records/record_locator.h"
#include "example/sequence.h"

namespace tio {
namespace {

// Where values are written. Room was counted in the first pass; the bytes may have changed under us
// since, so it is checked again.
template <class T>
struct Output {
  std::byte* data;
  std::size_t room;  // elements
  std::size_t written = 0;

  bool put(T value) {
    if (written == room) return false;
    std::memcpy(data + written * sizeof(T), &value, sizeof(T));
    ++written;
    return true;
  }
};

enum class Outcome { good, malformed, overfull, out_of_range };

template <class T>
Outcome put_ints(Bytes payload, Output<T>& out) {
  VarintReader reader(payload);
  if constexpr (std::same_as<T, std::int64_t>) {
    // Columns are 64-byte aligned and elements 8 bytes: the cast is safe.
    auto* target = reinterpret_cast<std::int64_t*>(out.data) + out.written;
    out.written += reader.read(target, out.room - out.written);
    if (reader.bad()) return Outcome::malformed;
    return reader.done() ? Outcome::good : Outcome::overfull;
  } else {
    std::int64_t values[128];
    while (!reader.done()) {
      const std::size_t count = reader.read(values, std::size(values));
      for (std::size_t i = 0; i < count; ++i) {
        T value;
        if (!cast(values[i], value)) return Outcome::out_of_range;
        if (!out.put(value)) return Outcome::overfull;
      }
      if (reader.bad()) return Outcome::malformed;
    }
    return Outcome::good;
  }
}

template <class T>
Outcome put_floats(Bytes payload, Output<T>& out) {
  if (payload.size() % 4 != 0) return Outcome::malformed;
  const std::size_t count = payload.size() / 4;
  if (count > out.room - out.written) return Outcome::overfull;
  if constexpr (std::same_as<T, float>) {
    if (count != 0) std::memcpy(out.data + out.written * 4, payload.data(), payload.size());
    out.written += count;
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      if (!cast(load<float>(payload, i * 4), value)) return Outcome::out_of_range;
      out.put(value);
    }
  }
  return Outcome::good;
}

// Stores the commonest values of all, without a loop: one float, or one integer of up to eight
// bytes. False if it is none. (Offset and size come as two numbers: GCC would take a Location
// through memory, and wait for it there.)
template <class T>
[[gnu::always_inline]] inline bool store_scalar(Bytes record, std::size_t offset, std::size_t size,
                                                std::byte* target) {
  if constexpr (std::same_as<T, std::int64_t>) {
    T value = 0;
    if (size - 1 >= 8 ||
        !decode_word(load_word(record, offset), static_cast<unsigned>(size), value)) {
      return false;
    }
    std::memcpy(target, &value, sizeof(T));
    return true;
  } else if constexpr (std::same_as<T, float>) {
    if (size != sizeof(T)) return false;
    std::memcpy(target, record.data() + offset, sizeof(T));
    return true;
  }
  return false;
}

// Puts the steps of a run up to the first that is no such value. Returns how many.
template <class T>
std::size_t put_scalars(Bytes record, const StepRun& run, Output<T>& out) {
  const std::size_t most = std::min(run.count, out.room - out.written);
  std::byte* target = out.data + out.written * sizeof(T);
  std::size_t done = 0;
  while (done < most &&
         store_scalar<T>(record, run.offsets[done], run.sizes[done], target + done * sizeof(T))) {
    ++done;
  }
  out.written += done;
  return done;
}

// Out of line, so that loops over scalars stay small.
template <class T>
[[gnu::noinline]] Outcome put_values(Bytes record, Location at, Output<T>& out) {
  Outcome outcome = Outcome::good;
  const bool whole = visit_values(record, at, [&](Bytes payload) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                  std::is_same_v<T, Half> || std::is_same_v<T, BrainHalf>) {
      outcome = put_floats(payload, out);
    } else {
      outcome = put_ints(payload, out);
    }
    return outcome == Outcome::good;
  });
  return whole || outcome != Outcome::good ? outcome : Outcome::malformed;
}

template <class T>
inline Outcome put_feature(Bytes record, Location at, Output<T>& out) {
  if (at.form == Form::single && out.written != out.room &&
      store_scalar<T>(record, at.offset, at.size, out.data + out.written * sizeof(T))) {
    ++out.written;
    return Outcome::good;
  }
  return put_values(record, at, out);
}

// ---- columns ----

class ColumnWriter {
 public:
  ColumnWriter(const ExampleParser& parser, const Records& records, const Located& located,
               MutableBytes arena, std::vector<Failure>& failures)
      : parser_(parser), records_(records), located_(located), arena_(arena), failures_(failures) {}

  // Writes a column of fixed size for some records; `rows_are_records`: see ExampleParser::Rows.
  void write_fixed(std::size_t feature, const ColumnPlace& place,
                   std::span<const std::size_t> which, bool rows_are_records) {
    begin(feature, place);
    with_element([&]<class T>(T) {
      for (std::size_t i = 0; i < which.size(); ++i) {
        write_fixed_row<T>(which[i], location(rows_are_records ? which[i] : i));
      }
    });
  }

  // Writes one record's row of a column of fixed size; false if that is not plain to do.
  bool write_plain_row(std::size_t feature, const ColumnPlace& place, std::size_t record,
                       const Location& at) {
    begin(feature, place);
    bool good = false;
    with_element([&]<class T>(T) {
      Output<T> out{arena_.data() + place.data + record * spec_->count * sizeof(T), spec_->count};
      good = put_feature(records_[record], at, out) == Outcome::good && out.written == spec_->count;
    });
    return good;
  }

  // Writes any other column, for all records.
  void write(std::size_t feature, const ColumnPlace& place) {
    begin(feature, place);
    switch (spec_->shape) {
      case Shape::fixed: return write_bytes();
      case Shape::ragged:
      case Shape::flat:
      case Shape::padded: break;
      case Shape::raw:
      case Shape::resized: return write_raw();
      case Shape::span:
      case Shape::aside: return;
    }
    if (spec_->element == Element::bytes) return write_bytes();
    with_element([&]<class T>(T) {
      if (spec_->shape == Shape::padded) return write_padded<T>();
      write_ragged<T>();
    });
  }

 private:
  void begin(std::size_t feature, const ColumnPlace& place) {
    feature_ = feature;
    spec_ = &parser_.specs()[feature];
    place_ = place;
  }

  template <class Write>
  void with_element(Write&& write) {
    switch (spec_->element) {
      case Element::int64: return write(std::int64_t{});
      case Element::int32: return write(std::int32_t{});
      case Element::int16: return write(std::int16_t{});
      case Element::int8: return write(std::int8_t{});
      case Element::uint64: return write(std::uint64_t{});
      case Element::uint32: return write(std::uint32_t{});
      case Element::uint16: return write(std::uint16_t{});
      case Element::uint8: return write(std::uint8_t{});
      case Element::boolean: return write(Boolean{});
      case Element::float32: return write(float{});
      case Element::float64: return write(double{});
      case Element::float16: return write(Half{});
      case Element::bfloat16: return write(BrainHalf{});
      case Element::bytes: return;
    }
  }

  const Location& location(std::size_t row) const {
    return located_.at(row, parser_.slot(feature_));
  }
  const ColumnSize& size() const { return located_.sizes[feature_]; }

  // ---- failures ----

  void fail(std::size_t record, std::int64_t offset, std::string reason) {
    failures_.push_back({record, static_cast<int>(feature_), offset, std::move(reason)});
  }

  void fail(std::size_t record, const Location& at, Outcome outcome) {
    if (outcome == Outcome::out_of_range) {
      return fail(record, at.offset, "a value does not fit in the dtype that the schema declares");
    }
    if (auto failure = parser_.illegal(record, records_[record], static_cast<int>(feature_))) {
      failures_.push_back(std::move(*failure));
      return;
    }
    if (spec_->shape == Shape::padded && spec_->in_lists && fail_step(record, at)) return;
    ValueCount count;
    count_values(records_[record], at, count);
    fail_count(record, at, "the record", count.values);
  }

  // Names the step that has not as many values as each should; false if there is none.
  bool fail_step(std::size_t record, const Location& list) {
    std::size_t number = 0;
    return !walk_steps(records_[record], list, stored_kind(spec_->element), [&](Location step) {
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
         what + " holds " + std::to_string(count) + " " + kind_name(stored_kind(spec_->element)) +
             (count == 1 ? " value" : " values") + ", the schema wants " +
             std::to_string(spec_->count));
  }

  // ---- columns of numbers ----

  template <class T>
  void write_fixed_row(std::size_t record, const Location& at) {
    Output<T> out{arena_.data() + place_.data + record * spec_->count * sizeof(T), spec_->count};
    if (at.form == Form::missing) {
      std::copy(spec_->default_data.begin(), spec_->default_data.end(), out.data);
      return;
    }
    Outcome outcome = put_feature(records_[record], at, out);
    if (outcome == Outcome::good && out.written != spec_->count) outcome = Outcome::overfull;
    if (outcome != Outcome::good) fail(record, at, outcome);
  }

  // Puts the values of one record. Calls `on_steps(steps, values)` when so many steps of a feature
  // list, of so many values each, have been put; it says whether that is as it should be.
  template <class T, class OnSteps>
  Outcome put_record(std::size_t record, const Location& at, Output<T>& out, OnSteps&& on_steps) {
    const Bytes bytes = records_[record];
    if (!spec_->in_lists) return put_feature(bytes, at, out);
    Outcome outcome = Outcome::good;
    const auto put_step = [&](Location step) {
      const std::size_t before = out.written;
      outcome = put_feature(bytes, step, out);
      return outcome == Outcome::good && on_steps(1, out.written - before);
    };
    const auto put_run = [&](const StepRun& run) {
      const std::size_t scalars = put_scalars(bytes, run, out);
      if (!on_steps(scalars, 1)) return false;
      for (std::size_t i = scalars; i < run.count; ++i) {
        if (!put_step(run[i])) return false;
      }
      return true;
    };
    const bool whole = walk_steps(bytes, at, stored_kind(spec_->element), put_run, put_step);
    return whole || outcome != Outcome::good ? outcome : Outcome::malformed;
  }

  template <class T>
  void write_ragged() {
    Output<T> out{arena_.data() + place_.data, size().values};
    std::uint64_t steps = 0;
    std::uint64_t end = 0;  // of the step before
    const auto on_steps = [&](std::size_t count, std::size_t values) {
      const bool counted = store_steps(steps, count, end, values);
      steps += count;
      end += count * values;
      return counted;
    };
    for (std::size_t record = 0; record < located_.records; ++record) {
      store_row(record, steps, out.written);
      const Outcome outcome = put_record(record, location(record), out, on_steps);
      if (outcome != Outcome::good) fail(record, location(record), outcome);
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
      Output<T> out{arena_.data() + place_.data + record * room * sizeof(T), room};
      Outcome outcome = put_record(record, location(record), out, on_steps);
      if (out.written % spec_->count != 0) outcome = Outcome::overfull;
      if (outcome != Outcome::good) fail(record, location(record), outcome);
      store(arena_, place_.rows + record * 8,
            static_cast<std::int64_t>(out.written / spec_->count));
      pad(out);
    }
  }

  template <class T>
  void pad(Output<T>& out) {
    T fill;
    std::memcpy(&fill, spec_->default_data.data(), sizeof(T));
    while (out.put(fill)) {
    }
  }

  // ---- offsets ----

  void store_offset(std::uint64_t at, std::uint64_t number, std::uint64_t offset) {
    if (spec_->narrow_splits) {
      store(arena_, at + number * 4, static_cast<std::int32_t>(offset));
    } else {
      store(arena_, at + number * 8, static_cast<std::int64_t>(offset));
    }
  }

  // Where a record's rows start. Feature lists begin their first step there, too.
  void store_row(std::size_t record, std::uint64_t steps, std::uint64_t values) {
    if (spec_->shape != Shape::ragged) return;
    store_offset(place_.rows, record, spec_->in_lists ? steps : values);
    if (record == 0 && spec_->in_lists) store_offset(place_.steps, 0, values);
  }

  // Where each of `count` steps of so many values ends, of which the first is number `first` and
  // starts at `start`. False if there are more than were counted.
  bool store_steps(std::uint64_t first, std::uint64_t count, std::uint64_t start,
                   std::uint64_t values) {
    if (spec_->shape != Shape::ragged) return true;
    if (count > size().steps - first) return false;
    for (std::uint64_t i = 1; i <= count; ++i) {
      store_offset(place_.steps, first + i, start + i * values);
    }
    return true;
  }

  void check_splits(std::uint64_t most) {
    if (spec_->shape == Shape::ragged && spec_->narrow_splits && most > INT32_MAX) {
      fail(located_.records - 1, -1, "the batch holds more values than int32 row splits can count");
    }
  }

  // ---- columns of bytes ----

  void write_bytes() {
    std::uint64_t values = 0;
    std::uint64_t bytes = 0;
    std::uint64_t steps = 0;
    const std::uint64_t most = count_of_bytes_values();
    const auto put = [&](Bytes value) {
      if (values == most || value.size() > size().bytes - bytes) return false;
      store(arena_, place_.values + values * 8, static_cast<std::int64_t>(bytes));
      std::copy(value.begin(), value.end(),
                arena_.begin() + static_cast<std::ptrdiff_t>(place_.data + bytes));
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
      if (at.form == Form::missing && spec_->shape == Shape::fixed) {
        good = put_default(put);
      } else if (spec_->in_lists) {
        good = walk_steps(whole, at, Kind::bytes, [&](Location step) {
          if (!visit_values(whole, step, put)) return false;
          return store_steps(steps++, 1, values, 0);
        });
      } else {
        good = visit_values(whole, at, put);
      }
      if (spec_->shape == Shape::padded) {
        store(arena_, place_.rows + record * 8,
              static_cast<std::int64_t>((values - first) / spec_->count));
        while (good && values < first + size().longest * spec_->count) good = put_default(put);
      }
      if (!good) fail(record, at, Outcome::malformed);
    }
    store_row(located_.records, steps, values);
    check_splits(std::max(steps, values));
    store(arena_, place_.values + values * 8, static_cast<std::int64_t>(bytes));
  }

  std::uint64_t count_of_bytes_values() const {
    if (spec_->shape != Shape::padded) return size().values;
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

  void write_raw() {
    for (std::size_t record = 0; record < located_.records; ++record) {
      const auto target = arena_.subspan(place_.data + record * spec_->count, spec_->count);
      bool seen = false;
      visit_values(records_[record], location(record), [&](Bytes value) {
        if (spec_->shape == Shape::raw && value.size() != spec_->count) return false;
        const Bytes kept = value.first(std::min<std::size_t>(value.size(), spec_->count));
        const auto end = std::copy(kept.begin(), kept.end(), target.begin());
        std::fill(end, target.end(), std::byte{0});
        seen = true;
        return true;
      });
      if (!seen) fail(record, location(record).offset, "its value changed while it was read");
    }
  }

  const ExampleParser& parser_;
  const Records& records_;
  const Located& located_;
  MutableBytes arena_;
  std::vector<Failure>& failures_;
  std::size_t feature_ = 0;
  const FeatureSpec* spec_ = nullptr;
  ColumnPlace place_;
};

// Whether `count` elements of `size` bytes at `offset` lie inside the arena.
bool inside(MutableBytes arena, std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  if (offset > arena.size() || offset % size != 0) return false;
  return count <= (arena.size() - offset) / size;
}

// Products of sizes, but never more than UINT64_MAX, which fits nowhere.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool place_fits(const FeatureSpec& spec, const ColumnSize& size, std::uint64_t records,
                const ColumnPlace& place, MutableBytes arena) {
  if (spec.shape == Shape::span || spec.shape == Shape::aside) return true;
  const std::uint64_t split = spec.narrow_splits ? 4 : 8;
  if (spec.shape == Shape::raw || spec.shape == Shape::resized) {
    return inside(arena, place.data, times(records, spec.count), 1);
  }
  std::uint64_t values = times(records, spec.count);
  if (spec.shape == Shape::padded) {
    values = times(values, size.longest);
    if (!inside(arena, place.rows, records, 8)) return false;
  } else if (spec.shape == Shape::flat) {
    values = size.values;
  } else if (spec.shape == Shape::ragged) {
    values = size.values;
    if (!inside(arena, place.rows, records + 1, split)) return false;
    if (spec.in_lists && !inside(arena, place.steps, size.steps + 1, split)) return false;
  }
  if (spec.element != Element::bytes) {
    return inside(arena, place.data, values, element_bytes(spec.element));
  }
  return values != UINT64_MAX && inside(arena, place.values, values + 1, 8) &&
         inside(arena, place.data, size.bytes, 1);
}

}  // namespace

bool ExampleParser::places_fit(const Located& located, std::span<const ColumnPlace> places,
                               MutableBytes arena) const {
  if (places.size() != specs_.size() || located.sizes.size() != specs_.size()) return false;
  if (reinterpret_cast<std::uintptr_t>(arena.data()) % 8 != 0) return false;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!place_fits(specs_[i], located.sizes[i], located.records, places[i], arena)) return false;
  }
  return true;
}

std::size_t ExampleParser::parse_foreseen(const RecordLocator& locator, const Records& records,
                                          std::span<const std::size_t> which,
                                          std::span<const ColumnPlace> places,
                                          MutableBytes arena) const {
  const Located nothing;
  std::vector<Failure> none;
  ColumnWriter writer(*this, records, nothing, arena, none);
  std::vector<std::size_t> seen_in(slots_, records.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::size_t record = which[i];
    const Bytes bytes = records[record];
    std::size_t seen = 0;
    const auto take = [&](const EntryTemplate& entry, std::size_t offset, std::size_t size) {
      const auto slot = static_cast<std::size_t>(entry.slot());
      // Of several entries with one key the last counts, and the others must still be sound.
      if (std::exchange(seen_in[slot], record) == record) return false;
      ++seen;
      const std::size_t feature = feature_of_[slot];
      if (plain_[feature].kind != entry.kind()) return false;
      std::byte* column = arena.data() + places[feature].data;
      switch (scalar_[feature]) {
        case Scalar::int64:
          return store_scalar<std::int64_t>(bytes, offset, size, column + 8 * record);
        case Scalar::float32: return store_scalar<float>(bytes, offset, size, column + 4 * record);
        case Scalar::none: break;
      }
      const Location at{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size),
                        Form::single, entry.kind()};
      return plain_[feature].matches(at) &&
             writer.write_plain_row(feature, places[feature], record, at);
    };
    if (bytes.size() > kLargestRecord || !locator.walk_foreseen(bytes, take) || seen != slots_) {
      return i;
    }
  }
  return which.size();
}

void ExampleParser::fill_fixed(const Records& records, const Located& located,
                               std::span<const std::size_t> which, Rows rows,
                               std::span<const ColumnPlace> places, MutableBytes arena,
                               std::vector<Failure>& failures) const {
  ColumnWriter writer(*this, records, located, arena, failures);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (plain_[i].possible) writer.write_fixed(i, places[i], which, rows == Rows::of_records);
  }
}

std::vector<Failure> ExampleParser::fill(const Records& records, const Located& located,
                                         std::span<const ColumnPlace> places,
                                         MutableBytes arena) const {
  std::vector<Failure> failures;
  // Locations lie record by record, columns value by value. So many records at a time, the
  // locations stay in the fastest cache while each column takes its turn.
  constexpr std::size_t kTile = 32;
  std::size_t which[kTile];
  for (std::size_t begin = 0; begin < located.records; begin += kTile) {
    const std::size_t count = std::min(kTile, located.records - begin);
    std::iota(which, which + count, begin);
    fill_fixed(records, located, {which, count}, Rows::of_records, places, arena, failures);
  }
  ColumnWriter writer(*this, records, located, arena, failures);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!plain_[i].possible) writer.write(i, places[i]);
  }
  return failures;
}

}  // namespace tio
