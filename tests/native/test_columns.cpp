// Filling columns: the parts of every column type. Casts are tested in Python, against PyTorch.
#include <limits>
#include <random>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "reference.h"

namespace tio::test {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

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
  test_floats_are_bit_exact();
  test_int_batches();
  test_scalar_ints();
  test_bytes_batches();
  test_raw_bytes_and_span();
  test_mixed_batch();
  return finish();
}
