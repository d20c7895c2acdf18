// Parsing invalid Examples: they are rejected, and nothing outside of them is read. Valid ones are
// compared with protobuf in Python.
#include <algorithm>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/parser.h"

namespace tio::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

// Reads all values of the feature "a".
std::optional<Values> read_a(const std::string& record, Dtype dtype) {
  const ExampleParser parser({ragged("a", dtype)});
  const Parsed parsed = parse(parser, record);
  if (!parsed.good()) return std::nullopt;
  return parsed.cells[0][0].values;
}

template <class T>
std::optional<std::vector<T>> read_numbers(const std::string& record, Dtype dtype) {
  const auto values = read_a(record, dtype);
  if (!values) return std::nullopt;
  std::vector<T> numbers;
  for (const auto& value : *values) numbers.push_back(load<T>(exact(value), 0));
  return numbers;
}

std::optional<Ints> ints(const std::string& record) {
  return read_numbers<std::int64_t>(record, Dtype::int64);
}
std::optional<Floats> floats(const std::string& record) {
  return read_numbers<float>(record, Dtype::float32);
}
std::optional<Values> texts(const std::string& record) { return read_a(record, Dtype::bytes); }

// Returns an Example with a feature "a".
std::string with_a(const std::string& feature) { return example(entry("a", feature)); }
std::string int_list(const std::string& list) { return with_a(feature(Kind::ints, list)); }
std::string float_list(const std::string& list) { return with_a(feature(Kind::floats, list)); }
std::string bytes_list(const std::string& list) { return with_a(feature(Kind::bytes, list)); }

const std::optional<Ints> kRejected;

void test_invalid_fields() {
  const std::string list = packed_ints({4});
  const std::string feature_of_list = feature(Kind::ints, list);
  for (const auto& invalid :
       {raw({0x00}), raw({0x00, 0x00}), raw({0x02, 0x00}), raw({0x0e}), raw({0x0f}), raw({0x0c}),
        raw({0x0b}), field_tag(9, wire::group) + field_tag(10, wire::end_group),
        varint(10, 6) + varint(0), field_tag(9, wire::delimited) + varint(1000),
        varint(0x100000000 + 10) + varint(0),
        field_tag(9, wire::varint) + std::string(10, '\x80') + '\x01', nested_groups(101)}) {
    for (const bool before : {true, false}) {
      const auto beside = [&](const std::string& bytes) {
        return before ? invalid + bytes : bytes + invalid;
      };
      CHECK_EQ_IN(ints(beside(int_list(list))), kRejected, invalid);
      CHECK_EQ_IN(ints(example(beside(entry("a", feature_of_list)))), kRejected, invalid);
      CHECK_EQ_IN(
          ints(example(delimited(1, beside(delimited(1, "a") + delimited(2, feature_of_list))))),
          kRejected, invalid);
      CHECK_EQ_IN(ints(with_a(beside(feature_of_list))), kRejected, invalid);
      CHECK_EQ_IN(ints(int_list(beside(list))), kRejected, invalid);
    }
  }
}

void test_invalid_values() {
  for (const auto& packed : {std::string("\x80"), std::string("\x01\x80"),
                             std::string(10, '\x80') + "\x01", std::string(10, '\xff')}) {
    CHECK_EQ_IN(ints(int_list(delimited(1, packed))), kRejected, packed);
  }
  CHECK_EQ(ints(int_list(varint_field(1, 1) + raw({0x08}))), kRejected);
  for (std::size_t spare = 1; spare < 4; ++spare) {
    CHECK_EQ(floats(float_list(delimited(1, std::string(4 + spare, 'x')))), std::nullopt);
    CHECK_EQ(floats(float_list(field_tag(1, wire::fixed32) + std::string(spare, 'x'))),
             std::nullopt);
  }
  CHECK_EQ(texts(bytes_list(delimited(1, "abc").substr(0, 4))), std::nullopt);
}

// A truncated record is rejected, with or without corrected lengths, unless it ends between
// entries.
void test_every_cut() {
  const ExampleParser parser({ragged("a", Dtype::int64), ragged("f", Dtype::float32),
                              ragged("s", Dtype::bytes), ragged("u", Dtype::int64)});
  std::string whole;
  std::vector<std::size_t> borders = {0};
  for (const auto& field :
       {ints_entry("a", {1, 300, -1}), floats_entry("f", {1.5F, 2.5F}),
        bytes_entry("s", {"word", ""}), ints_entry("other", {5}), group(4, varint_field(1, 1)),
        entry("u", feature(Kind::ints, unpacked_ints({1, 2})))}) {
    whole += field;
    borders.push_back(whole.size());
  }
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const bool border = std::find(borders.begin(), borders.end(), size) != borders.end();
    CHECK_EQ_IN(parse(parser, example(whole.substr(0, size))).good(), border, size);
  }
  const std::string record = example(whole);
  for (std::size_t size = 1; size < record.size(); ++size) {
    CHECK_EQ_IN(parse(parser, record.substr(0, size)).good(), false, size);
  }
}

void test_unread_features() {
  const std::string garbage = entry("other", raw({0x0e, 0xff, 0xff}));
  CHECK_EQ(ints(example(garbage + ints_entry("a", {1}))), Ints{1});
  const std::string short_entry = delimited(1, raw({0x0a, 0x05, 'o'}));
  CHECK_EQ(ints(example(short_entry + ints_entry("a", {1}))), kRejected);
  CHECK_EQ(ints(example(delimited(1, raw({0x0e})) + ints_entry("a", {1}))), kRejected);
}

// Failures name the record, the feature and the offset.
void test_failures() {
  const ExampleParser parser({fixed("a", Dtype::int64), ragged("f", Dtype::float32)});
  const std::string good = example(ints_entry("a", {1}));
  const std::vector<std::string> records = {good, example(ints_entry("b", {1})),
                                            example(floats_entry("a", {1})), raw({0x0e}), good};
  for (const auto& order : {order_of(5), std::vector<std::size_t>{3, 1, 4, 0, 2}}) {
    const Parsed parsed = parse(parser, joined(records, order));
    if (!CHECK_EQ(parsed.failures.size(), 3U)) return;
    for (std::size_t i = 0; i < 3; ++i) CHECK_EQ(parsed.failures[i].record, i + 1);
    CHECK_EQ(parsed.failures[0].feature, 0U);
    CHECK_EQ(parsed.failures[0].offset, std::nullopt);  // the feature is missing
    CHECK_EQ(parsed.failures[1].feature, 0U);
    CHECK_EQ(parsed.failures[1].offset, 13U);  // the values
    CHECK_EQ(parsed.failures[2].feature, std::nullopt);
    CHECK_EQ(parsed.failures[2].offset, 0U);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_invalid_fields();
  test_invalid_values();
  test_every_cut();
  test_unread_features();
  test_failures();
  return finish();
}
