// Parsing truncated Examples, and the order of failures. Other damage is in test_explain.cpp; valid
// encodings are compared with protobuf in Python.
#include <algorithm>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/parser.h"

namespace tio::test {
namespace {

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
  test_every_cut();
  test_failures();
  return finish();
}
