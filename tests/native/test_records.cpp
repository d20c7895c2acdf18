// Batches of records: anywhere in memory, in tiles of every size, and with both passes at once.
#include <limits>
#include <random>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "records/records.h"

namespace tio::test {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

void test_fits() {
  const auto buffer = exact("0123456789");
  const auto fits = [&](const Ints& starts, const Ints& sizes) {
    return Records::fits(buffer, starts, sizes);
  };
  CHECK(fits({}, {}));
  CHECK(fits({0, 10, 3, 3}, {10, 0, 7, 7}));
  CHECK(!fits({0}, {11}));
  CHECK(!fits({10}, {1}));
  CHECK(!fits({11}, {0}));
  CHECK(!fits({-1}, {1}));
  CHECK(!fits({1}, {-1}));
  CHECK(!fits({1}, {kMost}));
  CHECK(!fits({kMost}, {kMost}));
  CHECK(!fits({0, 0, 5}, {10, 10, 6}));
  CHECK(!fits({0, 1}, {1}));
  CHECK(!fits({0}, {1, 1}));
  CHECK(!Records::fits({}, Ints{0}, Ints{1}));
  CHECK(Records::fits({}, Ints{0}, Ints{0}));
}

void test_order() {
  const auto buffer = exact("0123456789");
  const Ints starts = {7, 0, 3, 3};
  const Ints sizes = {3, 2, 4, 1};
  const Records records(buffer, starts, sizes);
  CHECK_EQ(records.size(), 4U);
  CHECK_EQ(records.bytes(), 10U);
  CHECK_EQ(std::vector<std::size_t>(records.order().begin(), records.order().end()),
           (std::vector<std::size_t>{1, 2, 3, 0}));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(records[i].data() == buffer.data() + starts[i]);
    CHECK_EQ(records[i].size(), static_cast<std::size_t>(sizes[i]));
  }
  const Records views({Bytes(buffer).subspan(5), Bytes(buffer).first(3)});
  CHECK_EQ(std::vector<std::size_t>(views.order().begin(), views.order().end()),
           (std::vector<std::size_t>{0, 1}));
  CHECK_EQ(views.bytes(), 8U);
}

// ---- tiles ----

std::string record_of(std::mt19937_64& random, std::size_t kind) {
  const auto number = static_cast<std::int64_t>(random() >> (random() % 64));
  const std::string a = ints_entry("a", {number});
  const std::string b = ints_entry("b", {number >> 1, 1, -number});
  const std::string f = floats_entry("f", {static_cast<float>(number), 2});
  switch (kind) {
    case 0: return example(a + b + f);
    case 1: return example(b + a + f + ints_entry("unread", {1}));
    case 2: return example(a + bytes_entry("unread", {std::string(random() % 300, 'x')}) + b + f);
    case 3: return example(b + f);  // a has a default
    default:
      return example(entry("a", feature(Kind::ints, unpacked_ints({number}))) +
                     entry("b", feature(Kind::ints, unpacked_ints({1}) + packed_ints({2, 3}))) + f);
  }
}

const ExampleParser& fixed_parser() {
  static const ExampleParser parser({with_default(fixed("a", Dtype::int64), {"12345678"}),
                                     fixed("b", Dtype::int64, 3), fixed("f", Dtype::float32, 2),
                                     fixed("f", Dtype::float64, 2)});
  return parser;
}

void test_parts_are_copied() {
  const auto buffer = exact("0123456789");
  const Ints starts = {6, 0};
  const Ints sizes = {4, 3};
  const Records records(buffer, starts, sizes);
  std::vector<std::byte> out(4, std::byte{'.'});
  const auto copy = [&](const Ints& which, const Ints& offsets, std::size_t size) {
    return records.copy_parts(which, offsets, size, out);
  };
  CHECK(copy({0, 1}, {2, 0}, 2));
  const auto text = [&] { return std::string(reinterpret_cast<const char*>(out.data()), 4); };
  CHECK_EQ(text(), std::string("8901"));
  CHECK(!copy({0, 1}, {2}, 2));     // a part without a record
  CHECK(!copy({0}, {0}, 2));        // does not fill the output
  CHECK(!copy({0, 1}, {0, 0}, 3));  // exceeds the output
  CHECK(!copy({0, 2}, {0, 0}, 2));  // the record does not exist
  CHECK(!copy({0, -1}, {0, 0}, 2));
  CHECK(!copy({0, 1}, {0, 2}, 2));  // ends past its record
  CHECK(!copy({0, 1}, {0, 4}, 2));
  CHECK(!copy({0, 1}, {0, -1}, 2));
  CHECK(!copy({}, {}, 0));
  CHECK_EQ(text(), std::string("8901"));
  out.clear();
  CHECK(copy({}, {}, 2));
  CHECK(copy({1, 0}, {3, 4}, 0));
  CHECK(!copy({1}, {4}, 0));
}

// Batches of every size around that of a tile, in separate memory and in any order. `parse`
// compares parse_fixed with both passes.
void test_tiles() {
  std::mt19937_64 random(6);
  CHECK(fixed_parser().is_fixed());
  for (std::size_t size = 0; size < 70; ++size) {
    std::vector<std::string> records;
    for (std::size_t i = 0; i < size; ++i) records.push_back(record_of(random, random() % 5));
    std::vector<std::size_t> order = order_of(size);
    std::vector<Parsed> all;
    all.push_back(parse(fixed_parser(), apart(records)));
    all.push_back(parse(fixed_parser(), joined(records, order)));
    std::ranges::shuffle(order, random);
    all.push_back(parse(fixed_parser(), joined(records, order)));
    for (const Parsed& parsed : all) {
      CHECK_EQ_IN(parsed.good(), true, size);
      CHECK_EQ_IN(parsed.cells == all[0].cells, true, size);
    }
    for (std::size_t i = 0; i < size; ++i) {
      CHECK_EQ_IN(parse(fixed_parser(), records[i]).cells[0] == all[0].cells[i], true, i);
    }
  }
}

// Damage in records of several tiles: these records are rejected, in the order of the batch.
void test_failures_in_tiles() {
  std::mt19937_64 random(8);
  const std::string overlong = feature(Kind::ints, delimited(1, std::string(11, '\x80')));
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = 1 + random() % 60;
    std::vector<std::string> records;
    std::vector<std::size_t> bad;
    for (std::size_t i = 0; i < size; ++i) {
      records.push_back(record_of(random, 0));
      if (random() % 8 != 0) continue;
      bad.push_back(i);
      if (random() % 2 == 0) {
        records.back().pop_back();
      } else {
        records.back() += example(ints_entry("b", {1}));
      }
    }
    // Damage that is only detected when values are decoded.
    const std::size_t late = random() % size;
    const bool is_late = bad.empty() && random() % 2 == 0;
    if (is_late) records[late] += example(entry("a", overlong));
    std::vector<std::size_t> order = order_of(size);
    std::ranges::shuffle(order, random);
    for (const Batch& batch : {apart(records), joined(records, order)}) {
      const Parsed parsed = parse(fixed_parser(), batch);
      std::vector<std::size_t> refused;
      for (const Failure& failure : parsed.failures) refused.push_back(failure.record);
      CHECK_EQ_IN(refused, is_late ? std::vector<std::size_t>{late} : bad, round);
    }
  }
}

void test_is_fixed() {
  const auto is_fixed = [](const FeatureSpec& spec) {
    return ExampleParser({fixed("a", Dtype::int64), spec}).is_fixed();
  };
  CHECK(is_fixed(fixed("b", Dtype::float16, 3)));
  CHECK(is_fixed(with_default(fixed("b", Dtype::boolean), {"\x01"})));
  CHECK(is_fixed(one_bytes("b", ColumnType::raw_bytes)));
  CHECK(is_fixed(one_bytes("b", ColumnType::resized_bytes)));
  FeatureSpec without_column = one_bytes("b", ColumnType::raw_bytes);
  without_column.has_column = false;
  CHECK(!is_fixed(without_column));
  for (const auto& spec :
       {fixed("b", Dtype::bytes), ragged("b", Dtype::int64), flat("b", Dtype::int64),
        padded("b", Dtype::int64), one_bytes("b", ColumnType::span), on_request("b"),
        in_lists(on_request("b"))}) {
    CHECK(!is_fixed(spec));
  }
}

// ---- specs ----

void test_faults_of_specs() {
  const auto valid = [](const FeatureSpec& spec) { return spec.fault() == nullptr; };
  for (const ColumnType type :
       {ColumnType::raw_bytes, ColumnType::resized_bytes, ColumnType::span}) {
    CHECK(valid(one_bytes("s", type, 3)));
    CHECK(!valid(optional(one_bytes("s", type, 3))));
    CHECK(!valid(in_lists(one_bytes("s", type, 3))));
    FeatureSpec ints = one_bytes("s", type, 3);
    ints.dtype = Dtype::int64;
    CHECK(!valid(ints));
  }
  CHECK(valid(fixed("a", Dtype::int64, 3)));
  CHECK(!valid(in_lists(fixed("a", Dtype::int64, 3))));
  CHECK(!valid(optional(fixed("a", Dtype::int64, 3))));
  CHECK(valid(with_default(fixed("a", Dtype::int64, 2), {"12345678", "12345678"})));
  CHECK(!valid(with_default(fixed("a", Dtype::int64, 2), {"12345678", "1234567"})));
  CHECK(!valid(with_default(fixed("a", Dtype::int64, 2), {"12345678"})));
  CHECK(!valid(with_default(fixed("a", Dtype::int64, std::uint64_t{1} << 61), {})));
  CHECK(valid(with_default(fixed("s", Dtype::bytes, 2), {"", "xyz"})));
  CHECK(!valid(with_default(fixed("s", Dtype::bytes, 2), {"xyz"})));
  FeatureSpec other_sizes = with_default(fixed("s", Dtype::bytes, 2), {"x", "yz"});
  other_sizes.default_sizes = {1, 1};
  CHECK(!valid(other_sizes));
  other_sizes.default_sizes = {std::numeric_limits<std::uint64_t>::max(), 4};
  CHECK(!valid(other_sizes));
  CHECK(valid(padded("a", Dtype::int64, 3)));
  CHECK(valid(in_lists(optional(padded("s", Dtype::bytes, 3, "x")))));
  CHECK(!valid(padded("a", Dtype::int64, 0)));
  CHECK(!valid(with_values(padded("a", Dtype::int64, 2), {"12345678"})));
  CHECK(!valid(with_values(padded("s", Dtype::bytes, 2, "x"), {"y"})));
  CHECK(valid(on_request("a")) && valid(in_lists(on_request("a"))));
  CHECK(valid(on_request("s", Dtype::bytes)) && valid(in_lists(on_request("s", Dtype::bytes))));
  FeatureSpec int32_on_request = on_request("a");
  int32_on_request.dtype = Dtype::int32;
  CHECK(!valid(int32_on_request));
  CHECK(valid(ragged("a", Dtype::int8)) && valid(in_lists(flat("a", Dtype::bytes))));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_fits();
  test_order();
  test_parts_are_copied();
  test_tiles();
  test_failures_in_tiles();
  test_is_fixed();
  test_faults_of_specs();
  return finish();
}
