// Filling columns: casts to every dtype, and the parts of every column type.
#include <cmath>
#include <limits>
#include <random>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "reference.h"

namespace tio::test {
namespace {

constexpr Dtype kInts[] = {Dtype::int64,  Dtype::int32,  Dtype::int16, Dtype::int8,   Dtype::uint64,
                           Dtype::uint32, Dtype::uint16, Dtype::uint8, Dtype::boolean};
constexpr Dtype kFloats[] = {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16};

// Returns the element that one stored value is cast to, or nothing if it is rejected.
template <class T>
std::optional<std::string> cast_one(T value, Dtype dtype, ColumnType column_type) {
  FeatureSpec spec = column_type == ColumnType::ragged ? ragged("a", dtype) : fixed("a", dtype);
  const ExampleParser parser({std::move(spec)});
  std::string record;
  if constexpr (std::is_same_v<T, float>) {
    record = example(floats_entry("a", {value}));
  } else {
    record = example(ints_entry("a", {value}));
  }
  const Parsed parsed = parse(parser, record);
  if (parsed.good()) return parsed.cells[0][0].values[0];
  CHECK_EQ(parsed.failures[0].reason, "a value does not fit in the dtype that the schema declares");
  return std::nullopt;
}

void test_int_casts() {
  std::vector<std::int64_t> values = {0, 1, 2, -1};
  for (const unsigned bits : {7, 8, 15, 16, 31, 32, 62, 63}) {
    const std::int64_t limit =
        bits == 63 ? std::numeric_limits<std::int64_t>::max() : std::int64_t{1} << bits;
    for (const std::int64_t away : {2, 1, 0}) values.push_back(limit - away);
    if (bits != 63) values.push_back(limit + 1);
    for (const std::int64_t away : {1, 0, -1}) values.push_back(-limit + away + (bits == 63));
    values.push_back(std::numeric_limits<std::int64_t>::min());
  }
  for (const Dtype dtype : kInts) {
    for (const std::int64_t value : values) {
      for (const ColumnType column_type : {ColumnType::fixed, ColumnType::ragged}) {
        CHECK_EQ_IN(cast_one(value, dtype, column_type), reference_cast(value, dtype), value);
      }
    }
  }
}

// Parses `values` as one list and compares each with the reference, which accepts all of them.
void check_float_list(const std::vector<float>& values, Dtype dtype) {
  const ExampleParser parser({ragged("a", dtype)});
  const Parsed parsed = parse(parser, example(floats_entry("a", values)));
  if (!CHECK(parsed.good())) return;
  const Values& cast = parsed.cells[0][0].values;
  if (!CHECK_EQ(cast.size(), values.size())) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto wanted = reference_cast(values[i], dtype);
    CHECK(wanted.has_value());
    CHECK_EQ_IN(wanted && same_element(cast[i], *wanted, dtype), true, values[i]);
  }
}

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// For every number of a format: the number, the middle between it and the next one, and their
// neighbors.
std::vector<float> around_every_number(const SmallFloat& format) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits + 1 < format.infinity(); ++bits) {
    const double here = format.decode(bits);
    const auto middle = static_cast<float>((here + format.decode(bits + 1)) / 2);
    for (const float value : {static_cast<float>(here), middle}) {
      values.push_back(value);
      values.push_back(std::nextafter(value, -1.0F));
      values.push_back(std::nextafter(value, std::numeric_limits<float>::infinity()));
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

void test_half_floats() {
  check_float_list(around_every_number(float16_format()), Dtype::float16);
  check_float_list(around_every_number(bfloat16_format()), Dtype::bfloat16);
}

std::vector<float> special_floats() {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0F, -0.0F, infinity, -infinity};
  for (const std::uint32_t nan :
       {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0x7f802000U, 0x7fa00000U}) {
    values.push_back(float_of(nan));
    values.push_back(float_of(nan | 0x80000000U));
  }
  for (const std::uint32_t small : {1U, 0x7fffffU, 0x800000U}) values.push_back(float_of(small));
  return values;
}

void test_special_floats() {
  for (const Dtype dtype : kFloats) check_float_list(special_floats(), dtype);
}

void test_random_floats() {
  std::mt19937 random(4);
  for (const Dtype dtype : kFloats) {
    std::vector<float> values;
    while (values.size() < 50000) {
      const float value = float_of(static_cast<std::uint32_t>(random()));
      if (reference_cast(value, dtype)) values.push_back(value);
    }
    check_float_list(values, dtype);
  }
}

void test_floats_out_of_range() {
  const float largest = std::numeric_limits<float>::max();
  // The middle between the largest number and the next power of two is too large: ties go to even.
  for (const float value : {65504.0F, std::nextafter(65520.0F, 0.0F), 65520.0F, 65536.0F, 1e30F,
                            largest, float_of(0x7f7f7fff), float_of(0x7f7f8000)}) {
    for (const float signed_value : {value, -value}) {
      for (const Dtype dtype : kFloats) {
        for (const ColumnType column_type : {ColumnType::fixed, ColumnType::ragged}) {
          CHECK_EQ_IN(cast_one(signed_value, dtype, column_type),
                      reference_cast(signed_value, dtype), signed_value);
        }
      }
    }
  }
  CHECK(!cast_one(65520.0F, Dtype::float16, ColumnType::fixed));
  CHECK(cast_one(std::nextafter(65520.0F, 0.0F), Dtype::float16, ColumnType::fixed));
  CHECK(!cast_one(float_of(0x7f7f8000), Dtype::bfloat16, ColumnType::fixed));
  CHECK(cast_one(float_of(0x7f7f7fff), Dtype::bfloat16, ColumnType::fixed));
}

// float32 columns are copies, down to the payload of a NaN.
void test_floats_are_bit_exact() {
  const ExampleParser parser({ragged("a", Dtype::float32)});
  const Parsed parsed = parse(parser, example(floats_entry("a", special_floats())));
  CHECK(parsed.good());
  for (std::size_t i = 0; i < special_floats().size(); ++i) {
    CHECK_EQ(parsed.cells[0][0].values[i], little_endian(special_floats()[i]));
  }
}

// Parses a batch of records with the given numbers of values, in several encodings of a list.
template <class Make>
void check_batches(const FeatureSpec& spec, const std::vector<std::size_t>& counts, Make&& make) {
  const ExampleParser parser({spec});
  std::vector<std::string> records;
  std::vector<Values> wanted;
  for (const std::size_t count : counts) {
    Values values;
    records.push_back(make(count, values));
    wanted.push_back(values);
  }
  const Parsed parsed = parse(parser, apart(records));
  if (!CHECK(parsed.good())) return;
  for (std::size_t i = 0; i < records.size(); ++i)
    CHECK_EQ_IN(parsed.cells[i][0].values, wanted[i], i);
  CHECK_EQ(difference_from_alone(parser, records), std::string());
}

void test_int_batches() {
  std::mt19937_64 random(5);
  for (const Dtype dtype : {Dtype::int64, Dtype::int32, Dtype::uint8}) {
    const std::int64_t range = dtype == Dtype::uint8 ? 256 : std::int64_t{1} << 31;
    const auto make = [&](std::size_t count, Values& values) {
      std::vector<std::int64_t> numbers;
      for (std::size_t i = 0; i < count; ++i) {
        numbers.push_back(static_cast<std::int64_t>(random() >> (random() % 64)) % range);
        if (numbers[i] < 0) numbers[i] = 0;
        values.push_back(*reference_cast(numbers[i], dtype));
      }
      const auto half = numbers.begin() + static_cast<std::ptrdiff_t>(count / 2);
      const std::vector<std::int64_t> first(numbers.begin(), half);
      const std::vector<std::int64_t> second(half, numbers.end());
      const std::string list =
          random() % 2 ? packed_ints(numbers) : unpacked_ints(first) + packed_ints(second);
      return example(entry("a", feature(Kind::ints, list)));
    };
    check_batches(ragged("a", dtype), {}, make);
    check_batches(ragged("a", dtype), {0, 0}, make);
    check_batches(ragged("a", dtype), {3, 0, 1, 200, 0, 7, 8, 9, 127, 128, 129, 1000}, make);
    for (const std::size_t count : {1, 2, 8, 31, 300}) {
      check_batches(fixed("a", dtype, count), std::vector<std::size_t>(20, count), make);
    }
  }
}

void test_scalar_ints() {
  // Varints of every length, also at the end of the record.
  const ExampleParser parser({fixed("a", Dtype::int64)});
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto value = static_cast<std::int64_t>(std::uint64_t{1} << bit);
    for (std::size_t size = varint(std::uint64_t{1} << bit).size(); size <= 10; ++size) {
      const std::string spelled = varint(std::uint64_t{1} << bit, size);
      const std::string record = example(entry("a", feature(Kind::ints, delimited(1, spelled))));
      for (const std::size_t rest : {0, 1, 8, 100}) {
        const std::string longer = record + delimited(15, std::string(rest, 'x'));
        const Parsed parsed = parse(parser, apart({record, longer}));
        if (!CHECK(parsed.good())) continue;
        CHECK_EQ_IN(parsed.cells[0][0].values[0], little_endian(value), bit);
        CHECK_EQ_IN(parsed.cells[1][0].values[0], little_endian(value), bit);
      }
    }
  }
}

void test_bytes_batches() {
  const auto make = [](std::size_t count, Values& values) {
    for (std::size_t i = 0; i < count; ++i) values.push_back(std::string(i * 7 % 200, 'x'));
    return example(bytes_entry("a", values));
  };
  check_batches(ragged("a", Dtype::bytes), {}, make);
  check_batches(ragged("a", Dtype::bytes), {0, 1, 5, 0, 0, 100, 2}, make);
  check_batches(fixed("a", Dtype::bytes, 3), {3, 3, 3}, make);
  check_batches(fixed("a", Dtype::bytes, 0), {0, 0}, make);
}

void test_raw_bytes_and_span() {
  const auto make = [](std::size_t size, Values& values) {
    values = {std::string(size, static_cast<char>('a' + size % 26))};
    return example(bytes_entry("a", values));
  };
  check_batches(one_bytes("a", ColumnType::raw_bytes, 40), {40, 40, 40}, make);
  check_batches(one_bytes("a", ColumnType::raw_bytes, 0), {0, 0}, make);
  check_batches(one_bytes("a", ColumnType::span), {0, 40, 1, 1000}, make);

  const std::string two = example(bytes_entry("a", {"xy", "z"}));
  const std::string none = example(entry("a", feature(Kind::bytes, "")));
  for (const auto& spec :
       {one_bytes("a", ColumnType::raw_bytes, 2), one_bytes("a", ColumnType::span)}) {
    CHECK(!parse(ExampleParser({spec}), two).good());
    CHECK(!parse(ExampleParser({spec}), none).good());
  }
  CHECK(!parse(ExampleParser({one_bytes("a", ColumnType::raw_bytes, 2)}),
               example(bytes_entry("a", {"xyz"})))
             .good());
}

// Defaults between stored values, in several columns at once.
void test_mixed_batch() {
  const ExampleParser parser({with_default(fixed("i", Dtype::int16, 2), {"\x01\x02", "\x03\x04"}),
                              with_default(fixed("s", Dtype::bytes), {"none"}),
                              ragged("f", Dtype::float64)});
  const std::string full = example(ints_entry("i", {5, 6}) + bytes_entry("s", {"text"}) +
                                   floats_entry("f", {0.5F, -2.0F}));
  const Parsed parsed = parse(parser, apart({full, "", full, "", ""}));
  if (!CHECK(parsed.good())) return;
  for (const std::size_t record : {0, 2}) {
    CHECK_EQ(parsed.cells[record][0].values,
             (Values{std::string("\x05\0", 2), std::string("\x06\0", 2)}));
    CHECK_EQ(parsed.cells[record][1].values, Values{"text"});
    CHECK_EQ(parsed.cells[record][2].values, (Values{little_endian(0.5), little_endian(-2.0)}));
  }
  for (const std::size_t record : {1, 3, 4}) {
    CHECK_EQ(parsed.cells[record][0].values, (Values{"\x01\x02", "\x03\x04"}));
    CHECK_EQ(parsed.cells[record][1].values, Values{"none"});
    CHECK_EQ(parsed.cells[record][2].values, Values{});
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_int_casts();
  test_half_floats();
  test_special_floats();
  test_random_floats();
  test_floats_out_of_range();
  test_floats_are_bit_exact();
  test_int_batches();
  test_scalar_ints();
  test_bytes_batches();
  test_raw_bytes_and_span();
  test_mixed_batch();
  return finish();
}
