// Surveys of features: facts, records that do not count, limits, and formats of bytes. The tests in
// Python and the fuzz target compare surveys with independent implementations.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/survey.h"

namespace tio::test {
namespace {

using Positions = std::vector<std::int64_t>;

// Only the euro sign is printable, besides ASCII.
std::shared_ptr<const CharacterSet> printable() {
  std::vector<std::byte> bits(CharacterSet::kBytes);
  bits[0x20ac / 8] = std::byte{1U << (0x20ac % 8)};
  return std::make_shared<const CharacterSet>(bits);
}

std::map<std::string, FeatureFacts> facts_of(const FeatureTable& table) {
  std::map<std::string, FeatureFacts> facts;
  for (const SurveyedFeature* feature : table.all()) {
    if (feature->facts.records != 0) facts.emplace(feature->name, feature->facts);
  }
  return facts;
}

template <class T>
void check_extent(const Extent<T>& extent, T least, T most) {
  CHECK_EQ(extent.least, least);
  CHECK_EQ(extent.most, most);
}

void test_facts() {
  const std::string first = example(ints_entry("n", {-5, 300}) + ints_entry("none", {}) +
                                    floats_entry("f", std::vector<float>(11, 2.5F)));
  const std::string second = example(ints_entry("n", {7}) + bytes_entry("n", {"twelve bytes"}) +
                                     floats_entry("f", {-1}) + entry("only a name", ""));
  Survey survey(printable(), true);
  CHECK(survey.add(apart({first, second}).records).rejected.empty());
  CHECK_EQ(survey.records(), 2U);
  auto facts = facts_of(survey.context());
  CHECK_EQ(facts.size(), 4U);
  CHECK_EQ(facts["n"].values.kinds, kind_bit(Kind::ints) | kind_bit(Kind::bytes));
  check_extent<std::int64_t>(facts["n"].values.ints, -5, 300);  // the second one was replaced
  check_extent<std::uint64_t>(facts["n"].values.sizes, 12, 12);
  check_extent<std::uint64_t>(facts["n"].values.counts, 1, 2);
  check_extent<float>(facts["f"].values.floats, -1, 2.5F);
  CHECK_EQ(facts["none"].present, 1U);
  CHECK(facts["none"].values.ints.empty());
  CHECK_EQ(facts["only a name"].present, 0U);
  CHECK_EQ(facts["only a name"].records, 1U);
}

void test_lists() {
  const std::string one = feature(Kind::ints, packed_ints({1}));
  const std::string two = feature(Kind::ints, packed_ints({-2, 90}));
  const std::string record =
      sequence(ints_entry("a", {1}), list_entry("a", {one, two, ""}) + list_entry("b", {}));
  Survey survey(printable(), true);
  const SurveyedBatch batch = survey.add(apart({record, example("")}).records);
  CHECK(!batch.first_example.has_value());
  auto facts = facts_of(survey.lists());
  CHECK_EQ(facts.size(), 2U);
  check_extent<std::uint64_t>(facts["a"].steps, 3, 3);
  check_extent<std::uint64_t>(facts["a"].values.counts, 0, 2);
  check_extent<std::int64_t>(facts["a"].values.ints, -2, 90);
  check_extent<std::uint64_t>(facts["b"].steps, 0, 0);
  CHECK_EQ(facts_of(survey.context()).size(), 1U);

  Survey examples(printable(), false);
  examples.add(apart({record}).records);
  CHECK(facts_of(examples.lists()).empty());
}

void test_records_that_do_not_count() {
  const std::string good = example(ints_entry("a", {1}));
  const std::string odd = good + delimited(2, "\xff");  // an Example only
  Survey survey(printable(), true);
  const SurveyedBatch batch =
      survey.add(apart({good + "\xff", odd, good, example(ints_entry("b", {1})) + "\x0a"}).records);
  CHECK_EQ(batch.rejected, (Positions{0, 3}));
  CHECK_EQ(batch.first_example, std::int64_t{1});
  CHECK_EQ(facts_of(survey.context()).size(), 1U);
  CHECK_EQ(survey.context().all().size(), 1U);
}

// Nothing outside of a truncated record is read, and only whole records count.
void test_cuts() {
  const std::string record = sequence(
      ints_entry("a", {1, 300}) + floats_entry("f", {1, 2}) + bytes_entry("s", {"\xe2\x82"}),
      list_entry("l", {feature(Kind::ints, packed_ints({1, 300}))}));
  for (std::size_t size = 0; size < record.size(); ++size) {
    Survey survey(printable(), true);
    const Batch batch = apart({record.substr(0, size)});
    const bool is_rejected = !survey.add(batch.records).rejected.empty();
    CHECK_EQ_IN(survey.records(), is_rejected ? 0U : 1U, size);
  }
}

void test_limits() {
  Survey survey(printable(), true);
  std::string entries;
  for (std::size_t i = 0; i < kMaxSurveyFeatures; ++i) {
    entries += ints_entry(std::to_string(i), {1});
  }
  CHECK(!survey.add(apart({example(entries)}).records).is_full);
  CHECK(!survey.add(apart({example(ints_entry("5", {1}))}).records).is_full);
  CHECK(survey.add(apart({example(ints_entry("more", {1}))}).records).is_full);
  CHECK_EQ(survey.records(), 2U);
  Survey names(printable(), true);
  const std::string name(kMaxSurveyNameBytes / 2 + 1, 'x');
  CHECK(!names.add(apart({example(ints_entry(name, {1}))}).records).is_full);
  CHECK(names.add(apart({example(ints_entry(name + "y", {1}))}).records).is_full);
}

void test_images() {
  const std::string gif = "GIF89a\x01, or what looks like it";
  Survey survey(printable(), true);
  const std::string record =
      example(bytes_entry("a", {gif, gif}) + bytes_entry("b", {"text", gif}) +
              bytes_entry("c", {"GIF89a\x01"}));
  const SurveyedBatch batch = survey.add(apart({record}).records);
  CHECK_EQ(batch.images.size(), 2U);  // a feature with other values has no images
  for (const ImageValue& image : batch.images) {
    CHECK_EQ(record.substr(image.offset, image.size), gif);
  }
  CHECK(!facts_of(survey.context())["a"].has_invalid_image);
  CHECK(facts_of(survey.context())["c"].has_invalid_image);  // too small
  CHECK(survey.mark_invalid(batch.images[1]));
  CHECK(facts_of(survey.context())["a"].has_invalid_image);
  CHECK(!survey.mark_invalid({.feature = 3}));
  CHECK(!survey.mark_invalid({.feature = 0, .is_in_list = true}));
}

ByteFormat format_of(const std::string& value) {
  const auto bytes = exact(value);
  return sniff(bytes, *printable());
}

void test_formats() {
  const std::string euro = "\xe2\x82\xac";
  for (const auto& text : {std::string("plain\t\r\n"), euro, std::string(100, 'x') + euro + "x"}) {
    CHECK_EQ(format_of(text), ByteFormat::text);
  }
  for (const auto& other :
       {std::string(1, '\0'), std::string("\x7f"), std::string("a\x1b"), std::string("\xc3\xa9"),
        euro.substr(0, 2), std::string("\xf0\x82\x82\xac"), std::string("\xed\xa0\x80"),
        std::string("\xf4\x90\x80\x80"), std::string("\x80"), std::string(40, 'x') + '\0'}) {
    CHECK_EQ(format_of(other), ByteFormat::other);
  }
  CHECK_EQ(format_of(""), ByteFormat::empty);
  CHECK_EQ(format_of("RIFF\xff..WEBP"), ByteFormat::other);
  CHECK_EQ(format_of("RIFF\xff...WEBP"), ByteFormat::webp);
  CHECK_EQ(format_of("RIFF\xff"), ByteFormat::other);
  CHECK_EQ(format_of("\x80\x04N."), ByteFormat::pickle);
  CHECK_EQ(format_of("\x80\x06N."), ByteFormat::other);
  CHECK_EQ(format_of("\x80\x04N"), ByteFormat::other);
  CHECK_EQ(format_of(raw({8, 1, 0x12, 0})), ByteFormat::tensor);
  CHECK_EQ(format_of(raw({8, 1, 0x12, 0, 0x22, 1})), ByteFormat::other);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_facts();
  test_lists();
  test_records_that_do_not_count();
  test_cuts();
  test_limits();
  test_images();
  test_formats();
  return finish();
}
