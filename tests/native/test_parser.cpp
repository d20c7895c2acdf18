// Parsing Examples: every valid encoding has the values that protobuf reads, and all else is
// rejected.
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

void test_lists() {
  const Ints some = {0, 1, 127, 128, -1, std::int64_t{1} << 62};
  CHECK_EQ(ints(int_list(packed_ints(some))), some);
  CHECK_EQ(ints(int_list(unpacked_ints(some))), some);
  CHECK_EQ(ints(int_list(packed_ints({1, 2}) + packed_ints({}) + packed_ints({3}))),
           (Ints{1, 2, 3}));
  CHECK_EQ(ints(int_list(unpacked_ints({1}) + packed_ints({2, 3}) + unpacked_ints({4}))),
           (Ints{1, 2, 3, 4}));
  CHECK_EQ(ints(int_list(field_tag(1, wire::delimited, 4) + varint(2, 5) + varint(7, 2))), Ints{7});

  const Floats numbers = {0.0F, -1.5F, 3e38F};
  CHECK_EQ(floats(float_list(packed_floats(numbers))), numbers);
  CHECK_EQ(floats(float_list(unpacked_floats(numbers))), numbers);
  CHECK_EQ(floats(float_list(unpacked_floats({1}) + packed_floats({2, 3}) + packed_floats({}))),
           (Floats{1, 2, 3}));

  const Values words = {"", "abc", std::string(300, 'x'), std::string("\0\xff", 2)};
  CHECK_EQ(texts(bytes_list(bytes_values(words))), words);
  CHECK_EQ(texts(bytes_list(bytes_values({"one"}))), Values{"one"});
  CHECK_EQ(texts(bytes_list(bytes_values({""}))), Values{""});
}

void test_empties() {
  CHECK_EQ(ints(""), Ints{});
  CHECK_EQ(ints(example("")), Ints{});
  CHECK_EQ(ints(example(delimited(1, ""))), Ints{});  // an entry of key "" without a Feature
  CHECK_EQ(ints(with_a("")), Ints{});
  CHECK_EQ(ints(int_list("")), Ints{});
  CHECK_EQ(ints(int_list(packed_ints({}))), Ints{});
  CHECK_EQ(ints(int_list(packed_ints({}) + packed_ints({}))), Ints{});
  CHECK_EQ(texts(bytes_list("")), Values{});
  CHECK_EQ(floats(float_list("")), Floats{});
  CHECK_EQ(ints(example(delimited(1, delimited(1, "a")))), Ints{});  // no value
}

void test_entries() {
  const std::string key = delimited(1, "a");
  const std::string value = delimited(2, feature(Kind::ints, packed_ints({5})));
  const std::string other = delimited(2, feature(Kind::ints, packed_ints({6})));
  const auto read = [](const std::string& entry) { return ints(example(delimited(1, entry))); };
  CHECK_EQ(read(key + value), Ints{5});
  CHECK_EQ(read(value + key), Ints{5});
  CHECK_EQ(read(delimited(1, "b") + value + key), Ints{5});  // the last key counts
  CHECK_EQ(read(key + value + delimited(1, "b")), Ints{});
  CHECK_EQ(read(key + value + other), (Ints{5, 6}));  // one Feature, in two parts
  CHECK_EQ(read(value + key + other), (Ints{5, 6}));
  CHECK_EQ(read(field_tag(1, wire::delimited, 2) + varint(1, 3) + "a" + value), Ints{5});

  const ExampleParser unnamed({ragged("", Dtype::int64)});
  for (const auto& entry : {value, delimited(1, "") + value}) {
    const Parsed parsed = parse(unnamed, example(delimited(1, entry)));
    CHECK(parsed.good());
    CHECK_EQ(parsed.cells[0][0].values, Values{little_endian(std::int64_t{5})});
  }
  CHECK_EQ(ints(example(entry("\xff\xfe", "") + ints_entry("a", {1}))), Ints{1});  // not UTF-8
}

void test_several_entries() {
  const std::string one = ints_entry("a", {1});
  const std::string two = ints_entry("a", {2, 3});
  CHECK_EQ(ints(example(one + two)), (Ints{2, 3}));
  CHECK_EQ(ints(example(two + ints_entry("b", {9}) + one)), Ints{1});
  CHECK_EQ(ints(example(one) + example(two)), (Ints{2, 3}));
  CHECK_EQ(ints(example(one) + example(ints_entry("b", {2}))), Ints{1});
  CHECK_EQ(ints(example(one + entry("a", ""))), Ints{});
  CHECK_EQ(ints(example(one + delimited(1, delimited(1, "a")))), Ints{});
  CHECK_EQ(ints(example(floats_entry("a", {1}) + one)), Ints{1});  // only the last one's kind
  CHECK_EQ(ints(example(one + floats_entry("a", {1}))), kRejected);
  // Entries that are replaced must be valid, too.
  for (const auto& damaged :
       {entry("a", feature(Kind::ints, delimited(1, "\x80"))),
        entry("a", feature(Kind::ints, delimited(1, std::string(10, '\x80') + "\x01"))),
        entry("a", feature(Kind::floats, delimited(1, "abc"))), entry("a", raw({0x0e}))}) {
    CHECK_EQ(ints(example(damaged + one)), kRejected);
    CHECK_EQ(ints(example(damaged) + example(one)), kRejected);
    CHECK_EQ(ints(example(one + damaged)), kRejected);
  }
}

void test_kinds() {
  const std::string one = feature(Kind::ints, packed_ints({1}));
  const std::string two = feature(Kind::ints, packed_ints({2}));
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  const std::string word = feature(Kind::bytes, bytes_values({"x"}));
  CHECK_EQ(ints(with_a(one + two)), (Ints{1, 2}));
  CHECK_EQ(ints(with_a(one + feature(Kind::ints, "") + two)), (Ints{1, 2}));
  CHECK_EQ(ints(with_a(number + one)), Ints{1});
  CHECK_EQ(ints(with_a(one + number + two)), Ints{2});
  CHECK_EQ(ints(with_a(one + feature(Kind::bytes, "") + two)), Ints{2});
  CHECK_EQ(floats(with_a(word + one + number)), Floats{1.5F});
  CHECK_EQ(texts(with_a(number + word + word)), (Values{"x", "x"}));
  CHECK_EQ(ints(with_a(one + number)), kRejected);
  CHECK_EQ(ints(with_a(one + feature(Kind::floats, ""))), kRejected);
  CHECK_EQ(ints(int_list("")), Ints{});
  CHECK_EQ(ints(float_list("")), kRejected);  // an empty list has a kind
  CHECK_EQ(ints(bytes_list("")), kRejected);
  // A list that is replaced must be valid, too.
  CHECK_EQ(ints(with_a(feature(Kind::floats, delimited(1, "abc")) + one)), kRejected);
  CHECK_EQ(floats(with_a(feature(Kind::ints, delimited(1, "\x80")) + number)), std::nullopt);
}

// Unknown fields at each level, before and after the known ones.
void test_unknown_fields() {
  const std::string list = packed_ints({4});
  const std::string feature_of_list = feature(Kind::ints, list);
  for (const auto& unknown :
       {varint_field(9, 300), delimited(9, "abc"), field_tag(9, wire::fixed64) + "12345678",
        field_tag(9, wire::fixed32) + "1234", group(9, group(10, "") + varint_field(1, 1)),
        nested_groups(90), varint_field(0x1fffffff, 1), group(1, delimited(1, "a")),
        field_tag(1, wire::fixed64) + "12345678", varint_field(9, 1) + delimited(4, "")}) {
    for (const bool before : {true, false}) {
      const auto beside = [&](const std::string& bytes) {
        return before ? unknown + bytes : bytes + unknown;
      };
      CHECK_EQ_IN(ints(beside(int_list(list))), Ints{4}, unknown);
      CHECK_EQ_IN(ints(example(beside(entry("a", feature_of_list)))), Ints{4}, unknown);
      CHECK_EQ_IN(
          ints(example(delimited(1, beside(delimited(1, "a") + delimited(2, feature_of_list))))),
          Ints{4}, unknown);
      CHECK_EQ_IN(ints(with_a(beside(feature_of_list))), Ints{4}, unknown);
      CHECK_EQ_IN(ints(int_list(beside(list))), Ints{4}, unknown);
    }
  }
  // A known field number with another wire type is an unknown field.
  CHECK_EQ(ints(int_list(field_tag(1, wire::fixed32) + "1234" + list)), Ints{4});
  CHECK_EQ(floats(float_list(varint_field(1, 7) + packed_floats({1}))), Floats{1});
  CHECK_EQ(texts(bytes_list(varint_field(1, 7) + bytes_values({"x"}))), Values{"x"});
  CHECK_EQ(ints(with_a(varint_field(3, 7) + feature_of_list)), Ints{4});
}

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

// ---- columns of the values ----

bool accepts(const FeatureSpec& spec, const std::string& record, const Values& wanted) {
  const ExampleParser parser({spec});
  const Parsed parsed = parse(parser, record);
  return parsed.good() && parsed.cells[0][0].values == wanted;
}

bool refuses(const FeatureSpec& spec, const std::string& record, const std::string& reason) {
  const ExampleParser parser({spec});
  const Parsed parsed = parse(parser, record);
  if (parsed.failures.size() != 1 || parsed.failures[0].feature != 0) return false;
  return CHECK_EQ(parsed.failures[0].reason, reason);
}

Values as_values(const Ints& numbers) {
  Values values;
  for (const auto number : numbers) values.push_back(little_endian(number));
  return values;
}

void test_wrong_counts() {
  const FeatureSpec three = fixed("a", Dtype::int64, 3);
  for (std::int64_t count = 0; count < 8; ++count) {
    Ints numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i * 200);
    for (const auto& list :
         {packed_ints(numbers), unpacked_ints(numbers), packed_ints(numbers) + packed_ints({})}) {
      if (count == 3) {
        CHECK(accepts(three, int_list(list), as_values(numbers)));
      } else {
        CHECK(refuses(three, int_list(list),
                      "the record holds " + std::to_string(count) + " int64 value" +
                          (count == 1 ? "" : "s") + ", the schema wants 3"));
      }
    }
  }
  CHECK(refuses(fixed("a", Dtype::float32, 2), float_list(packed_floats({1})),
                "the record holds 1 float value, the schema wants 2"));
  CHECK(refuses(fixed("a", Dtype::bytes, 1), bytes_list(bytes_values({"a", "b"})),
                "the record holds 2 bytes values, the schema wants 1"));
  CHECK(accepts(fixed("a", Dtype::int64, 0), int_list(""), {}));
  CHECK(accepts(fixed("a", Dtype::int64, 0), int_list(packed_ints({})), {}));
  CHECK(!accepts(fixed("a", Dtype::int64, 0), int_list(packed_ints({1})), {}));
}

void test_defaults() {
  const std::string missing = "the feature is required but the record does not have it";
  const FeatureSpec required = fixed("a", Dtype::int64, 2);
  const FeatureSpec numbers = with_default(required, as_values({7, 8}));
  const FeatureSpec words = with_default(fixed("a", Dtype::bytes, 2), {"", "xyz"});
  for (const auto& record : {std::string(), example(ints_entry("b", {1})), with_a(""),
                             example(ints_entry("a", {1, 2}) + entry("a", ""))}) {
    CHECK(refuses(required, record, missing));
    CHECK(accepts(numbers, record, as_values({7, 8})));
    CHECK(accepts(words, record, {"", "xyz"}));
    CHECK(refuses(one_bytes("a", ColumnType::raw_bytes, 4), record, missing));
    CHECK(refuses(one_bytes("a", ColumnType::span), record, missing));
  }
  CHECK(accepts(numbers, int_list(packed_ints({1, 2})), as_values({1, 2})));
  CHECK(refuses(numbers, int_list(""), "the record holds 0 int64 values, the schema wants 2"));
  CHECK(refuses(words, int_list(packed_ints({1, 2})),
                "the record holds int64 values, the schema wants bytes"));
  CHECK(refuses(words, int_list(""), "the record holds int64 values, the schema wants bytes"));
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
  test_lists();
  test_empties();
  test_entries();
  test_several_entries();
  test_kinds();
  test_unknown_fields();
  test_invalid_fields();
  test_invalid_values();
  test_every_cut();
  test_unread_features();
  test_wrong_counts();
  test_defaults();
  test_failures();
  return finish();
}
