// Compares the survey of features with protobuf: the same records count, and the facts about each
// feature are those of its values. Surveys of parts are merged to the same, also from their states.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch.h"
#include "batch_target.h"
#include "example/survey.h"
#include "model.h"

namespace tio::fuzz {
namespace {

using FactsMap = std::map<std::string, FeatureFacts>;

struct Facts {
  std::vector<std::int64_t> rejected;
  std::optional<std::int64_t> first_example;
  std::uint64_t records = 0;
  FactsMap context;
  FactsMap lists;
};

// Printable characters: ASCII, and every other one, so that both are tried.
std::shared_ptr<const CharacterSet> printable() {
  static const auto set = [] {
    std::vector<std::byte> bits(CharacterSet::kBytes, std::byte{0x55});
    for (std::size_t i = 0; i < 16; ++i) bits[i] = i < 4 ? std::byte{0} : std::byte{0xff};
    return std::make_shared<const CharacterSet>(bits);
  }();
  return set;
}

void add_values(ValueFacts& facts, const Feature& feature) {
  for (const auto value : feature.int64_list().value()) facts.ints.add(value);
  for (const auto value : feature.float_list().value()) facts.floats.add(value);
  for (const auto& value : feature.bytes_list().value()) facts.sizes.add(value.size());
  facts.counts.add(static_cast<std::uint64_t>(feature.int64_list().value_size()) +
                   static_cast<std::uint64_t>(feature.float_list().value_size()) +
                   static_cast<std::uint64_t>(feature.bytes_list().value_size()));
  const Kind kind = static_cast<Kind>(feature.kind_case());
  if (kind != Kind::none) facts.kinds |= kind_bit(kind);
}

void add_formats(FeatureFacts& facts, const Feature& feature) {
  for (const auto& value : feature.bytes_list().value()) {
    facts.formats.add(sniff(std::as_bytes(std::span(value)), *printable()));
  }
}

void add_record(Facts& facts, const Reference& reference) {
  ++facts.records;
  for (const auto& [name, read] : reference.context) {
    FeatureFacts& feature = facts.context[name];
    ++feature.records;
    if (read.value.kind_case() == Feature::KIND_NOT_SET) continue;
    ++feature.present;
    add_values(feature.values, read.value);
    add_formats(feature, read.value);
  }
  for (const auto& [name, read] : reference.lists) {
    FeatureFacts& feature = facts.lists[name];
    ++feature.records;
    ++feature.present;
    feature.steps.add(static_cast<std::uint64_t>(read.value.feature_size()));
    for (const Feature& step : read.value.feature()) {
      add_values(feature.values, step);
      add_formats(feature, step);
    }
  }
}

Verdict verdict_of_all(const Reference& reference) {
  Verdict verdict = reference.framing;
  for (const auto& [name, read] : reference.context) verdict = worse(verdict, read.verdict);
  for (const auto& [name, read] : reference.lists) verdict = worse(verdict, read.verdict);
  return verdict;
}

// Returns the facts that protobuf finds, or nothing if both results are right for a record.
std::optional<Facts> expect(const std::vector<std::string>& records) {
  Facts facts;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    Reference reference = read_sequence(records[i]);
    const Verdict as_sequence = verdict_of_all(reference);
    Verdict verdict = as_sequence;
    if (as_sequence == Verdict::refused) {
      reference = read_example(records[i]);
      verdict = verdict_of_all(reference);
    }
    if (may_hold_wide_tag(records[i]) || verdict == Verdict::either) return std::nullopt;
    if (verdict == Verdict::refused) {
      facts.rejected.push_back(position);
      continue;
    }
    if (as_sequence == Verdict::refused && !facts.first_example) facts.first_example = position;
    add_record(facts, reference);
  }
  return facts;
}

template <class T>
void require_same_extent(const Extent<T>& found, const Extent<T>& wanted, const std::string& name) {
  require(found.empty() == wanted.empty(), "another extent of " + name);
  require(found.empty() || (found.least == wanted.least && found.most == wanted.most),
          "other ends of " + name);
}

void require_same_feature(const FeatureFacts& found, const FeatureFacts& wanted,
                          const std::string& name) {
  require(found.records == wanted.records, "another number of records with " + name);
  require(found.present == wanted.present, "another number of records with values of " + name);
  require(found.values.kinds == wanted.values.kinds, "other kinds of " + name);
  require_same_extent(found.steps, wanted.steps, name + ", steps");
  require_same_extent(found.values.counts, wanted.values.counts, name + ", counts");
  require_same_extent(found.values.ints, wanted.values.ints, name + ", ints");
  require_same_extent(found.values.floats, wanted.values.floats, name + ", floats");
  require_same_extent(found.values.sizes, wanted.values.sizes, name + ", sizes");
  const auto counts = found.formats.all();
  require(counts.size() == wanted.formats.all().size(), "other formats of " + name);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto& other = wanted.formats.all()[i];
    require(counts[i].format == other.format && counts[i].values == other.values,
            "another number of values of a format of " + name);
  }
}

void require_same_features(const FeatureTable& found, const FactsMap& wanted) {
  std::size_t count = 0;
  for (const SurveyedFeature* const feature : found.all()) {
    const std::string name(feature->name);
    if (feature->facts.records == 0) continue;
    ++count;
    const auto other = wanted.find(name);
    require(other != wanted.end(), "protobuf lacks the feature " + name);
    require_same_feature(feature->facts, other->second, name);
  }
  require(count == wanted.size(), "protobuf has more features");
}

void require_same_survey(const Survey& survey, const Facts& facts) {
  require(survey.records() == facts.records, "another number of records");
  require_same_features(survey.context(), facts.context);
  require_same_features(survey.lists(), facts.lists);
}

void require_inside(const std::vector<std::string>& records, const SurveyedBatch& batch) {
  for (const ImageValue& image : batch.images) {
    const std::size_t size = records.at(image.record).size();
    require(image.offset <= size && image.size <= size - image.offset, "an image lies outside");
  }
}

}  // namespace

void run(const std::vector<std::string>& records) {
  Survey whole(printable(), true);
  const SurveyedBatch batch = whole.add(test::apart(records).records);
  require(!batch.is_full, "a small input has too many features");
  require_inside(records, batch);
  Survey one_by_one(printable(), true);
  for (const auto& record : records) one_by_one.add(test::apart({record}).records);
  if (const auto facts = expect(records)) {
    require(batch.rejected == facts->rejected, "protobuf rejects other records");
    require(batch.first_example == facts->first_example, "protobuf has another first Example");
    require_same_survey(whole, *facts);
    require_same_survey(one_by_one, *facts);
  }
}

}  // namespace tio::fuzz
