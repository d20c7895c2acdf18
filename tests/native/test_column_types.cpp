// Every column type for features and feature lists: padding, row splits of both sizes, no row
// splits, bytes of one size, values on request, and several columns of one feature.
#include <random>

#include "batch.h"
#include "check.h"
#include "encode.h"

namespace tio::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;
using Units = std::vector<std::uint64_t>;

Values as_values(const Ints& numbers) {
  Values values;
  for (const auto number : numbers) values.push_back(little_endian(number));
  return values;
}

Values narrowed(const Ints& numbers) {
  Values values;
  for (const auto number : numbers)
    values.push_back(little_endian(static_cast<std::int16_t>(number)));
  return values;
}

std::string int_step(const Ints& values) { return feature(Kind::ints, packed_ints(values)); }
std::string text_step(const Texts& values) { return feature(Kind::bytes, bytes_values(values)); }

std::string reason_of(const FeatureSpec& spec, const std::string& record) {
  const Parsed parsed = parse(ExampleParser({spec}), record);
  return parsed.good() ? "" : parsed.failures[0].reason;
}

// ---- padded: the padding itself is checked wherever a batch is read back ----

void test_padded_features() {
  const ExampleParser parser({padded("i", Dtype::int64, 2, little_endian(std::int64_t{-7})),
                              optional(padded("i", Dtype::int16, 1, "\x05\x06")),
                              optional(padded("f", Dtype::float32, 3, little_endian(1.5F))),
                              optional(padded("s", Dtype::bytes, 1, "padding")),
                              optional(padded("e", Dtype::bytes, 2))});
  const std::string floats = floats_entry("f", {1, 2, 3, 4, 5, 6});
  const Parsed parsed =
      parse(parser, apart({example(ints_entry("i", {1, 2}) + bytes_entry("s", {"a", "", "bc"})),
                           example(ints_entry("i", {}) + floats + bytes_entry("e", {"x", "yz"})),
                           example(ints_entry("i", {3, 4, 5, 6, 7, 8}) + bytes_entry("s", {}))}));
  if (!CHECK(parsed.good())) return;
  const std::vector<Cell>& first = parsed.cells[0];
  const std::vector<Cell>& second = parsed.cells[1];
  const std::vector<Cell>& third = parsed.cells[2];
  CHECK_EQ(first[0].values, as_values({1, 2}));
  CHECK_EQ(first[0].units, Units{2});
  CHECK_EQ(first[1].values, narrowed({1, 2}));
  CHECK_EQ(first[2].units, Units{});
  CHECK_EQ(first[3].values, (Values{"a", "", "bc"}));
  CHECK_EQ(second[0].units, Units{});
  CHECK_EQ(second[2].units, (Units{3, 3}));
  CHECK_EQ(second[3].units, Units{});
  CHECK_EQ(second[4].values, (Values{"x", "yz"}));
  CHECK_EQ(third[0].units, (Units{2, 2, 2}));
  CHECK_EQ(third[0].values, as_values({3, 4, 5, 6, 7, 8}));
  CHECK_EQ(third[3].units, Units{});
  CHECK_EQ(parsed.located.sizes[0].longest, 3U);
  CHECK_EQ(parsed.located.sizes[1].longest, 6U);
  // Nine cells: three values, and the padding six times.
  CHECK_EQ(parsed.located.sizes[3].bytes, 3 + 6 * 7U);
  CHECK_EQ(parsed.located.sizes[4].bytes, 3U);

  CHECK_EQ(reason_of(padded("i", Dtype::int64, 2), example(ints_entry("i", {1, 2, 3}))),
           "the record holds 3 int64 values, the schema wants a multiple of 2");
  CHECK_EQ(reason_of(padded("i", Dtype::int64, 2), ""),
           "the feature is required but the record does not have it");
  CHECK_EQ(reason_of(padded("i", Dtype::bytes), example(ints_entry("i", {1}))),
           "the record holds int64 values, the schema wants bytes");
  CHECK_EQ(reason_of(padded("i", Dtype::uint8), example(ints_entry("i", {256}))),
           "a value does not fit in the dtype that the schema declares");
}

void test_padded_lists() {
  const ExampleParser parser({in_lists(padded("i", Dtype::int64, 2, std::string(8, '\x11'))),
                              in_lists(optional(padded("f", Dtype::float16, 1, "\x22\x33"))),
                              in_lists(optional(padded("s", Dtype::bytes, 2, "pad")))});
  const std::string pair = int_step({1, 2});
  const std::string unpacked = feature(Kind::ints, unpacked_ints({3, 4}));
  const std::string half = feature(Kind::floats, packed_floats({0.5F}));
  const std::string words = text_step({"x", "yz"});
  const Parsed parsed = parse(
      parser,
      apart({delimited(2, list_entry("i", {pair, unpacked, pair})),
             delimited(2, list_entry("i", {}) + list_entry("f", {half, half, half, half})),
             delimited(2, list_entry("i", {pair}) + list_entry("s", {words, words, words}))}));
  if (!CHECK(parsed.good())) return;
  CHECK_EQ(parsed.cells[0][0].values, as_values({1, 2, 3, 4, 1, 2}));
  CHECK_EQ(parsed.cells[0][0].units, (Units{2, 2, 2}));
  CHECK_EQ(parsed.cells[1][0].units, Units{});
  CHECK_EQ(parsed.cells[1][1].values, Values(4, std::string("\x00\x38", 2)));
  CHECK_EQ(parsed.cells[2][0].units, Units{2});
  CHECK_EQ(parsed.cells[2][2].values, (Values{"x", "yz", "x", "yz", "x", "yz"}));
  CHECK_EQ(parsed.located.sizes[2].bytes, 9 + 12 * 3U);

  const FeatureSpec two = in_lists(padded("i", Dtype::int64, 2));
  const auto reason = [&](const Texts& features) {
    return reason_of(two, delimited(2, list_entry("i", features)));
  };
  CHECK_EQ(reason({pair, int_step({1})}), "step 1 holds 1 int64 value, the schema wants 2");
  CHECK_EQ(reason({pair, pair, int_step({})}), "step 2 holds 0 int64 values, the schema wants 2");
  CHECK_EQ(reason({pair, pair, int_step({1, 2, 3, 4})}),
           "step 2 holds 4 int64 values, the schema wants 2");
  CHECK_EQ(reason({""}), "step 0 holds 0 int64 values, the schema wants 2");
  CHECK_EQ(reason({pair, half}), "the record holds float values, the schema wants int64");
  CHECK_EQ(reason_of(two, ""), "the feature is required but the record does not have it");
}

// ---- offsets ----

void test_ragged_lists() {
  for (const bool is_narrow : {false, true}) {
    const auto split = [&](FeatureSpec spec) {
      return is_narrow ? with_int32_splits(std::move(spec)) : spec;
    };
    const ExampleParser parser(
        {in_lists(split(ragged("i", Dtype::int64))), in_lists(split(ragged("s", Dtype::bytes))),
         split(ragged("i", Dtype::int16)), split(ragged("s", Dtype::bytes))});
    const std::vector<std::string> records = {
        sequence(ints_entry("i", {7}) + bytes_entry("s", {"x", "yz"}),
                 list_entry("i", {int_step({1, 2}), "", int_step({3})})),
        "",
        sequence(ints_entry("i", {8, 9}),
                 list_entry("i", {}) + list_entry("s", {text_step({"a", ""}), text_step({}), "",
                                                        text_step({"bcd"})})),
        sequence("", list_entry("i", {int_step({4}), int_step(Ints(300, 5))}))};
    const Parsed parsed = parse(parser, apart(records));
    if (!CHECK(parsed.good())) return;
    CHECK_EQ(parsed.cells[0][0].values, as_values({1, 2, 3}));
    CHECK_EQ(parsed.cells[0][0].units, (Units{2, 0, 1}));
    CHECK_EQ(parsed.cells[0][1].units, Units{});
    CHECK_EQ(parsed.cells[0][2].values, narrowed({7}));
    CHECK_EQ(parsed.cells[0][3].values, (Values{"x", "yz"}));
    CHECK_EQ(parsed.cells[1][0].units, Units{});
    CHECK_EQ(parsed.cells[1][2].units, Units{0});
    CHECK_EQ(parsed.cells[2][1].values, (Values{"a", "", "bcd"}));
    CHECK_EQ(parsed.cells[2][1].units, (Units{2, 0, 0, 1}));
    CHECK_EQ(parsed.cells[2][2].values, narrowed({8, 9}));
    CHECK_EQ(parsed.cells[3][0].units, (Units{1, 300}));
    CHECK_EQ(difference_from_alone(parser, records), std::string());
    CHECK(parse(parser, apart({})).good());
  }
}

// ---- without offsets, or without a column ----

void test_flat_and_on_request() {
  const ExampleParser parser({flat("i", Dtype::int16), on_request("i"), flat("s", Dtype::bytes),
                              in_lists(flat("i", Dtype::int64)), in_lists(on_request("i")),
                              in_lists(flat("s", Dtype::bytes)), flat("f", Dtype::float64),
                              on_request("s", Dtype::bytes),
                              in_lists(on_request("s", Dtype::bytes))});
  const std::vector<std::string> records = {
      sequence(ints_entry("i", {7, 8}) + bytes_entry("s", {"x", "yz"}) + floats_entry("f", {0.5F}),
               list_entry("i", {int_step({1, 2}), "", int_step({3})})),
      "",
      sequence(entry("i", feature(Kind::ints, unpacked_ints({-1}) + packed_ints({-2}))),
               list_entry("i", {int_step(Ints(100, 300))}) +
                   list_entry("s", {text_step({"a", ""}), text_step({"bcd"})}))};
  const Parsed parsed = parse(parser, apart(records));
  if (!CHECK(parsed.good())) return;
  CHECK_EQ(parsed.cells[0][0].values, narrowed({7, 8}));
  CHECK_EQ(parsed.cells[0][1].values, as_values({7, 8}));
  CHECK_EQ(parsed.cells[0][2].values, (Values{"x", "yz"}));
  CHECK_EQ(parsed.cells[0][6].values, Values{little_endian(0.5)});
  CHECK_EQ(parsed.cells[1][1].units, Units{0});
  CHECK_EQ(parsed.cells[1][4].units, Units{});
  CHECK_EQ(parsed.cells[2][1].values, as_values({-1, -2}));
  CHECK_EQ(parsed.cells[2][5].values, (Values{"a", "", "bcd"}));
  CHECK_EQ(parsed.cells[2][5].units, (Units{2, 1}));
  for (const std::size_t record : {0, 1, 2}) {
    for (const std::size_t column : {2, 5}) {  // the same values without a column
      const Cell& same = parsed.cells[record][column == 2 ? 7 : 8];
      CHECK_EQ(same.values, parsed.cells[record][column].values);
      CHECK_EQ(same.units, parsed.cells[record][column].units);
    }
  }
  for (const std::size_t list : {3, 4}) {
    CHECK_EQ(parsed.cells[0][list].values, as_values({1, 2, 3}));
    CHECK_EQ(parsed.cells[0][list].units, (Units{2, 0, 1}));
    CHECK_EQ(parsed.cells[2][list].units, Units{100});
  }
  CHECK_EQ(difference_from_alone(parser, records), std::string());
}

void test_counts_and_integers() {
  const ExampleParser parser({in_lists(on_request("i")), on_request("i")});
  const Batch batch =
      apart({sequence(ints_entry("i", {7}), list_entry("i", {int_step({1, 2}), "", int_step({3})})),
             "", sequence("", list_entry("i", {int_step(Ints(65, -1))}))});
  const LocateResult located = parser.locate(batch.records);
  const StoredInts lists = decode_ints(parser, batch.records, located, 0);
  CHECK_EQ(lists.units.values, (Ints{0, 2, 2, 3, 68}));
  CHECK_EQ(lists.units.records, (Ints{0, 3, 3, 4}));
  CHECK_EQ(lists.values.size(), 68U);
  const StoredInts context = decode_ints(parser, batch.records, located, 1);
  CHECK_EQ(context.values, Ints{7});
  CHECK_EQ(context.units.values, (Ints{0, 1, 1, 1}));
  CHECK_EQ(context.units.records, (Ints{0, 1, 2, 3}));
  CHECK(lists.failures.empty() && context.failures.empty());
  const UnitOffsets units = count_units(parser, batch.records, located, 0);
  CHECK_EQ(units.values, lists.units.values);
  CHECK_EQ(units.records, lists.units.records);
}

// A varint that is too long is only detected when the values are decoded.
void test_invalid_ints() {
  const ExampleParser parser({on_request("i"), in_lists(on_request("l"))});
  const std::string bad =
      feature(Kind::ints, delimited(1, "\x01" + std::string(11, '\x80') + "\x01"));
  const Batch batch = apart({example(ints_entry("i", {1})), example(entry("i", bad)),
                             delimited(2, list_entry("l", {int_step({1}), bad}))});
  const LocateResult located = parser.locate(batch.records);
  CHECK(located.failures.empty());
  for (const std::size_t feature : {0, 1}) {
    const StoredInts found = decode_ints(parser, batch.records, located, feature);
    if (!CHECK_EQ(found.failures.size(), 1U)) continue;
    const Failure& failure = found.failures[0];
    CHECK_EQ(failure.record, feature + 1);
    CHECK_EQ(failure.feature, feature);
    CHECK_EQ(failure.reason, "a varint is truncated or longer than 10 bytes");
    CHECK_EQ(failure.offset, batch.records[feature + 1].size() - 12);
  }
}

// ---- bytes of one size ----

void test_resized() {
  const ExampleParser parser({one_bytes("s", ColumnType::resized_bytes, 4),
                              one_bytes("s", ColumnType::resized_bytes, 0),
                              one_bytes("s", ColumnType::span), ragged("s", Dtype::bytes)});
  std::vector<std::string> records;
  const Texts texts = {"", "a", "abcd", "abcde", std::string(300, 'x'), std::string("\0z", 2)};
  for (const auto& text : texts) records.push_back(example(bytes_entry("s", {text})));
  records.push_back(example(entry("s", varint_field(9, 1) + text_step({"late"}))));
  const Parsed parsed = parse(parser, apart(records));
  if (!CHECK(parsed.good())) return;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string wanted = texts[i];
    wanted.resize(4, '\0');
    CHECK_EQ_IN(parsed.cells[i][0].values, Values{wanted}, i);
    CHECK_EQ_IN(parsed.cells[i][1].values, Values{""}, i);
    CHECK_EQ_IN(parsed.cells[i][2].values, Values{texts[i]}, i);
  }
  CHECK_EQ(parsed.cells[texts.size()][0].values, Values{"late"});
  CHECK_EQ(difference_from_alone(parser, records), std::string());
  const FeatureSpec spec = one_bytes("s", ColumnType::resized_bytes, 4);
  CHECK_EQ(reason_of(spec, example(bytes_entry("s", {"a", "b"}))),
           "the record holds 2 bytes values, the schema wants 1");
  CHECK_EQ(reason_of(spec, example(bytes_entry("s", {}))),
           "the record holds 0 bytes values, the schema wants 1");
  CHECK_EQ(reason_of(spec, ""), "the feature is required but the record does not have it");
  CHECK_EQ(
      reason_of(one_bytes("s", ColumnType::raw_bytes, 4), example(bytes_entry("s", {"abcde"}))),
      "its value has 5 bytes, the schema wants 4");
}

// ---- several columns of one stored feature ----

void test_columns_share_a_slot() {
  const ExampleParser parser({fixed("i", Dtype::int64, 2), ragged("i", Dtype::int16),
                              fixed("other", Dtype::int64), padded("i", Dtype::int64, 1),
                              with_int32_splits(ragged("i", Dtype::int64)), on_request("i"),
                              in_lists(on_request("i")), in_lists(flat("i", Dtype::int16))});
  CHECK_EQ(parser.slots(), 3U);
  for (const std::size_t feature : {1, 3, 4, 5}) CHECK_EQ(parser.slot(feature), parser.slot(0));
  CHECK_EQ(parser.slot(7), parser.slot(6));
  CHECK(parser.slot(0) != parser.slot(2) && parser.slot(0) != parser.slot(6));
  CHECK_EQ(parser.find(exact("i"), false), static_cast<int>(parser.slot(0)));
  CHECK_EQ(parser.find(exact("i"), true), static_cast<int>(parser.slot(6)));
  CHECK_EQ(parser.find(exact("other"), true), -1);
  CHECK_EQ(parser.find(exact(""), false), -1);

  const std::string record = sequence(ints_entry("i", {4, 5}) + ints_entry("other", {6}),
                                      list_entry("i", {int_step({1}), int_step({2})}));
  const Parsed parsed = parse(parser, apart({record, record}));
  if (!CHECK(parsed.good())) return;
  for (const auto& cells : parsed.cells) {
    for (const std::size_t feature : {0, 3, 4, 5}) {
      CHECK_EQ_IN(cells[feature].values, as_values({4, 5}), feature);
    }
    CHECK_EQ(cells[1].values, narrowed({4, 5}));
    CHECK_EQ(cells[2].values, as_values({6}));
    CHECK_EQ(cells[6].values, as_values({1, 2}));
    CHECK_EQ(cells[7].values, narrowed({1, 2}));
  }
  // The record is rejected if one of its columns rejects it.
  const Parsed refused =
      parse(parser, example(ints_entry("i", {1, 40000}) + ints_entry("other", {6})));
  CHECK_EQ(refused.failures.size(), 1U);
  CHECK_EQ(refused.failures[0].feature, 1);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_padded_features();
  test_padded_lists();
  test_ragged_lists();
  test_flat_and_on_request();
  test_counts_and_integers();
  test_invalid_ints();
  test_resized();
  test_columns_share_a_slot();
  return finish();
}
