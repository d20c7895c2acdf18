// The second pass: from located values to columns in the arena.
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <utility>

#include "example.h"

namespace tio {
namespace {

// Distinct types for the elements that C++ has no portable name for.
struct Boolean {
  std::uint8_t value;
};
struct Half {
  std::uint16_t bits;
};
struct BrainHalf {
  std::uint16_t bits;
};

// ---- casts: false if the value does not fit ----

template <std::integral T>
bool cast(std::int64_t value, T& out) {
  out = static_cast<T>(value);
  return std::in_range<T>(value);
}

bool cast(std::int64_t value, Boolean& out) {
  out.value = static_cast<std::uint8_t>(value);
  return value == 0 || value == 1;
}

bool cast(float value, double& out) {
  out = value;
  return true;
}

// Keeps the `32 - drop` upper bits of a float, rounded to nearest, ties to even.
std::uint32_t round_off(std::uint32_t bits, unsigned drop) {
  const std::uint32_t half = std::uint32_t{1} << (drop - 1);
  return (bits + (half - 1) + (bits >> drop & 1)) >> drop;
}

bool cast(float value, BrainHalf& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    out.bits = static_cast<std::uint16_t>(bits >> 16 | 0x40);  // quiet, so that it stays a NaN
    return true;
  }
  out.bits = static_cast<std::uint16_t>(round_off(bits, 16));
  return std::isinf(value) || (out.bits & 0x7fff) != 0x7f80;
}

bool cast(float value, Half& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half = 0;
  if (std::isnan(value)) {
    half = 0x7e00 | (magnitude >> 13 & 0x1ff);
  } else if (std::isinf(value)) {
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {            // 2^-14 and up: a normal half
    half = round_off(magnitude - 0x38000000, 13);  // exponent bias 127 becomes 15
  } else {
    // Below, a half counts steps of 2^-24. The product is exact, rint rounds ties to even.
    half = static_cast<std::uint32_t>(std::rint(std::bit_cast<float>(magnitude) * 0x1p24F));
  }
  out.bits = static_cast<std::uint16_t>(sign | half);
  return std::isinf(value) || half < 0x7c00 || std::isnan(value);
}

// ---- one feature of one record ----

// Where the values of a feature are written. Room was counted in the first pass; the bytes may have
// changed under us since, so it is checked again.
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

template <class T>
Outcome put_feature(Bytes buffer, const Location& at, Output<T>& out) {
  Outcome outcome = Outcome::good;
  const bool whole = visit_values(buffer, at, [&](Bytes payload) {
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

std::string explain(Outcome outcome, std::uint64_t wanted, Bytes buffer, const Location& at) {
  if (outcome == Outcome::out_of_range) {
    return "a value does not fit in the dtype that the schema declares";
  }
  ValueCount count;
  if (outcome == Outcome::malformed || !count_values(buffer, at, count)) {
    return "its list of values is cut short or not legal";
  }
  return "the record holds " + std::to_string(count.values) + " " + kind_name(at.kind) +
         (count.values == 1 ? " value" : " values") + ", the schema wants " +
         std::to_string(wanted);
}

// ---- columns ----

class ColumnWriter {
 public:
  ColumnWriter(Bytes buffer, const Located& located, MutableBytes arena,
               std::vector<Failure>& failures)
      : buffer_(buffer), located_(located), arena_(arena), failures_(failures) {}

  // Writes `feature` for the records from `begin` to `end`; columns of no fixed size need all of
  // them.
  void write(const FeatureSpec& spec, std::size_t feature, const ColumnPlace& place,
             std::size_t begin, std::size_t end) {
    feature_ = feature;
    begin_ = begin;
    end_ = end;
    if (spec.shape == Shape::span) return;
    if (spec.shape == Shape::raw) return write_raw(spec, place);
    if (spec.element == Element::bytes) return write_bytes(spec, place);
    switch (spec.element) {
      case Element::int64: return write_numbers<std::int64_t>(spec, place);
      case Element::int32: return write_numbers<std::int32_t>(spec, place);
      case Element::int16: return write_numbers<std::int16_t>(spec, place);
      case Element::int8: return write_numbers<std::int8_t>(spec, place);
      case Element::uint64: return write_numbers<std::uint64_t>(spec, place);
      case Element::uint32: return write_numbers<std::uint32_t>(spec, place);
      case Element::uint16: return write_numbers<std::uint16_t>(spec, place);
      case Element::uint8: return write_numbers<std::uint8_t>(spec, place);
      case Element::boolean: return write_numbers<Boolean>(spec, place);
      case Element::float32: return write_numbers<float>(spec, place);
      case Element::float64: return write_numbers<double>(spec, place);
      case Element::float16: return write_numbers<Half>(spec, place);
      case Element::bfloat16: return write_numbers<BrainHalf>(spec, place);
      case Element::bytes: return;
    }
  }

 private:
  const Location& location(std::size_t record) const {
    return located_.locations[record * located_.totals.size() + feature_];
  }

  void fail(std::size_t record, std::string reason) {
    failures_.push_back(
        {record, static_cast<int>(feature_), location(record).offset, std::move(reason)});
  }

  template <class T>
  void write_numbers(const FeatureSpec& spec, const ColumnPlace& place) {
    if (spec.shape == Shape::ragged) return write_ragged<T>(place);
    for (std::size_t record = begin_; record < end_; ++record) {
      std::byte* target = arena_.data() + place.data + record * spec.count * sizeof(T);
      const Location& at = location(record);
      if constexpr (std::same_as<T, std::int64_t>) {
        if (spec.count == 1 && write_scalar(at, target)) continue;
      }
      if constexpr (std::same_as<T, float>) {
        if (spec.count == 1 && at.form == Form::single && at.size == 4) {
          std::memcpy(target, at.of(buffer_).data(), 4);
          continue;
        }
      }
      if (at.form == Form::missing) {
        std::copy(spec.default_data.begin(), spec.default_data.end(), target);
        continue;
      }
      Output<T> out{target, spec.count};
      Outcome outcome = put_feature(buffer_, at, out);
      if (outcome == Outcome::good && out.written != spec.count) outcome = Outcome::overfull;
      if (outcome != Outcome::good) fail(record, explain(outcome, spec.count, buffer_, at));
    }
  }

  // The commonest value of all, one integer of up to eight bytes, without a loop.
  bool write_scalar(const Location& at, std::byte* target) const {
    std::int64_t value = 0;
    if (at.form != Form::single || at.size == 0 || at.size > 8 || buffer_.size() - at.offset < 8 ||
        !decode_word(load<std::uint64_t>(buffer_, at.offset), at.size, value)) {
      return false;
    }
    std::memcpy(target, &value, sizeof(value));
    return true;
  }

  template <class T>
  void write_ragged(const ColumnPlace& place) {
    Output<T> out{arena_.data() + place.data, located_.totals[feature_].values};
    for (std::size_t record = 0; record < located_.records; ++record) {
      store(arena_, place.row_offsets + record * 8, static_cast<std::int64_t>(out.written));
      const Outcome outcome = put_feature(buffer_, location(record), out);
      if (outcome != Outcome::good) fail(record, explain(outcome, 0, buffer_, location(record)));
    }
    store(arena_, place.row_offsets + located_.records * 8, static_cast<std::int64_t>(out.written));
  }

  void write_bytes(const FeatureSpec& spec, const ColumnPlace& place) {
    const ValueCount room = located_.totals[feature_];
    std::uint64_t values = 0;
    std::uint64_t bytes = 0;
    const auto put = [&](Bytes value) {
      if (values == room.values || value.size() > room.bytes - bytes) return false;
      store(arena_, place.value_offsets + values * 8, static_cast<std::int64_t>(bytes));
      std::copy(value.begin(), value.end(),
                arena_.begin() + static_cast<std::ptrdiff_t>(place.data + bytes));
      ++values;
      bytes += value.size();
      return true;
    };
    for (std::size_t record = 0; record < located_.records; ++record) {
      if (spec.shape == Shape::ragged) {
        store(arena_, place.row_offsets + record * 8, static_cast<std::int64_t>(values));
      }
      const Location& at = location(record);
      if (at.form == Form::missing && spec.shape == Shape::fixed) {
        put_default(spec, put);
      } else if (!visit_values(buffer_, at, put)) {
        fail(record, explain(Outcome::malformed, spec.count, buffer_, at));
      }
    }
    if (spec.shape == Shape::ragged) {
      store(arena_, place.row_offsets + located_.records * 8, static_cast<std::int64_t>(values));
    }
    store(arena_, place.value_offsets + values * 8, static_cast<std::int64_t>(bytes));
  }

  template <class Put>
  static void put_default(const FeatureSpec& spec, const Put& put) {
    Cursor cursor(spec.default_data);
    for (const auto size : spec.default_sizes) {
      Bytes value;
      if (!cursor.read_bytes(size, value) || !put(value)) return;
    }
  }

  void write_raw(const FeatureSpec& spec, const ColumnPlace& place) {
    for (std::size_t record = 0; record < located_.records; ++record) {
      const std::size_t target = place.data + record * spec.count;
      const bool whole = visit_values(buffer_, location(record), [&](Bytes value) {
        if (value.size() != spec.count) return false;
        std::copy(value.begin(), value.end(), arena_.begin() + static_cast<std::ptrdiff_t>(target));
        return true;
      });
      if (!whole) fail(record, "its value changed while it was read");
    }
  }

  Bytes buffer_;
  const Located& located_;
  MutableBytes arena_;
  std::vector<Failure>& failures_;
  std::size_t feature_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Whether `count` elements of `size` bytes at `offset` lie inside the arena.
bool inside(MutableBytes arena, std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  if (offset > arena.size() || offset % size != 0) return false;
  return size == 0 || count <= (arena.size() - offset) / size;
}

}  // namespace

bool ExampleParser::places_fit(const Located& located, std::span<const ColumnPlace> places,
                               MutableBytes arena) const {
  if (places.size() != specs_.size() || located.totals.size() != specs_.size()) return false;
  if (reinterpret_cast<std::uintptr_t>(arena.data()) % 8 != 0) return false;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const FeatureSpec& spec = specs_[i];
    const ColumnPlace& place = places[i];
    const ValueCount& total = located.totals[i];
    const bool is_bytes = spec.element == Element::bytes;
    if (spec.shape == Shape::span) continue;
    if (spec.shape == Shape::ragged && !inside(arena, place.row_offsets, located.records + 1, 8)) {
      return false;
    }
    if (is_bytes && spec.shape != Shape::raw &&
        !inside(arena, place.value_offsets, total.values + 1, 8)) {
      return false;
    }
    std::uint64_t elements = total.values;
    if (spec.shape == Shape::raw || is_bytes)
      elements = total.bytes;
    else if (spec.shape == Shape::fixed) {
      // The product is bounded by the caller's arena: refuse before it can wrap.
      if (spec.count != 0 && located.records > arena.size() / spec.count) return false;
      elements = located.records * spec.count;
    }
    if (!inside(arena, place.data, elements, element_bytes(spec.element))) return false;
  }
  return true;
}

std::vector<Failure> ExampleParser::fill(Bytes buffer, const Located& located,
                                         std::span<const ColumnPlace> places,
                                         MutableBytes arena) const {
  std::vector<Failure> failures;
  ColumnWriter writer(buffer, located, arena, failures);
  // Locations lie record by record, columns value by value. So many records at a time, the
  // locations stay in the fastest cache while each column takes its turn.
  constexpr std::size_t kTile = 32;
  for (std::size_t begin = 0; begin < located.records; begin += kTile) {
    const std::size_t end = std::min(begin + kTile, located.records);
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (plain_[i].possible) writer.write(specs_[i], i, places[i], begin, end);
    }
  }
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!plain_[i].possible) writer.write(specs_[i], i, places[i], 0, located.records);
  }
  return failures;
}

}  // namespace tio
