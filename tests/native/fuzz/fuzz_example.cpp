// Examples against protobuf's own parser: the same bytes accepted, the same values read, by records
// alone and behind others.
//
// Input: a message of `repeated bytes record = 1`, or else any bytes as one record.
//
// Where the two differ on purpose:
//  - Features that the schema does not ask for are not looked into, so damage there is not seen,
//  and
//    keys need not be UTF-8. FramedExample (framed.proto) lets protobuf read the same way. Whatever
//    protobuf accepts as an Example it must also accept so, with equal Features.
//  - Depth: protobuf counts a group's depth from the root message, we from the field that holds it.
//  In
//    the few levels between both answers are right (Verdict::either).
//  - Tags of five bytes may hold more than 32 bits. This protobuf drops those that are too many; we
//    refuse them, as the format has no such field numbers (may_hold_wide_tag).
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "batch.h"
#include "encode.h"
#include "example.pb.h"
#include "framed.pb.h"
#include "mutate.h"
#include "reference.h"
#include "require.h"

namespace tio::fuzz {
namespace {

using test::Values;
using torchrec_io::Example;
using torchrec_io::Feature;
using torchrec_io::fuzz::FramedExample;
using Message = google::protobuf::MessageLite;

enum class Verdict { refused, accepted, either };

// ---- what protobuf says ----

constexpr int kDeepest = 100;

bool merge(const std::string& bytes, int depth, Message& message) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(depth);
  return message.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// Parses with the depth that the root has, and again with that of `levels` further down.
Verdict merge_at(const std::string& bytes, int levels, Message& message) {
  std::unique_ptr<Message> strict(message.New());
  if (!merge(bytes, kDeepest + levels, message)) return Verdict::refused;
  return merge(bytes, kDeepest, *strict) ? Verdict::accepted : Verdict::either;
}

// The worse of two: what is refused in any part is refused.
Verdict join(Verdict a, Verdict b) {
  if (a == Verdict::refused || b == Verdict::refused) return Verdict::refused;
  return a == Verdict::either ? a : b;
}

struct ReferenceFeature {
  Verdict verdict = Verdict::accepted;  // of every entry of the key, those that do not count too
  Feature feature;
};

struct Reference {
  Verdict framing = Verdict::accepted;
  std::map<std::string, ReferenceFeature> features;
};

Reference read_framed(const std::string& record) {
  Reference reference;
  FramedExample framed;
  reference.framing = merge_at(record, 2, framed);
  for (const auto& entry : framed.features().feature()) {
    ReferenceFeature& read = reference.features[entry.key()];
    read.feature.Clear();  // the last entry of a key counts
    for (const auto& value : entry.value()) {
      read.verdict = join(read.verdict, merge_at(value, 1, read.feature));
    }
  }
  return reference;
}

void require_agreement_with_example(const std::string& record, const Reference& framed) {
  Example example;
  if (!merge(record, kDeepest, example)) return;
  require(framed.framing != Verdict::refused, "an Example is no FramedExample");
  const auto& features = example.features().feature();
  require(features.size() == framed.features.size(), "an Example has other features");
  for (const auto& [key, read] : framed.features) {
    const auto found = features.find(key);
    require(found != features.end(), "an Example lacks a feature");
    require(read.verdict != Verdict::refused, "an Example has a Feature that is none");
    require(found->second.SerializeAsString() == read.feature.SerializeAsString(),
            "an Example has another Feature");
  }
}

bool may_hold_wide_tag(const std::string& record) {
  for (std::size_t i = 4; i < record.size(); ++i) {
    const auto byte = [&](std::size_t back) {
      return static_cast<unsigned char>(record[i - back]);
    };
    const bool fifth = byte(4) >= 0x80 && byte(3) >= 0x80 && byte(2) >= 0x80 && byte(1) >= 0x80;
    if (fifth && byte(0) >= 0x10 && byte(0) < 0x80) return true;
  }
  return false;
}

// ---- what a schema makes of it ----

// The values of a Feature as the column stores them; nothing if one does not fit.
std::optional<Values> cast_values(const Feature& feature, Element element) {
  Values values;
  for (const auto& value : feature.bytes_list().value()) values.push_back(value);
  const auto add = [&](const auto& numbers) {
    for (const auto number : numbers) {
      const auto cast = test::reference_cast(number, element);
      if (!cast) return false;
      values.push_back(*cast);
    }
    return true;
  };
  if (feature.has_int64_list() && !add(feature.int64_list().value())) return std::nullopt;
  if (feature.has_float_list() && !add(feature.float_list().value())) return std::nullopt;
  return values;
}

Values default_values(const FeatureSpec& spec) {
  Values values;
  std::size_t at = 0;
  const auto* data = reinterpret_cast<const char*>(spec.default_data.data());
  for (std::uint64_t i = 0; i < spec.count; ++i) {
    const std::size_t size =
        spec.element == Element::bytes ? spec.default_sizes[i] : element_bytes(spec.element);
    values.emplace_back(data + at, size);
    at += size;
  }
  return values;
}

std::optional<Values> expected_values(const FeatureSpec& spec, const Reference& reference) {
  const auto found = reference.features.find(spec.name);
  const Kind kind = found == reference.features.end()
                        ? Kind::none
                        : static_cast<Kind>(found->second.feature.kind_case());
  if (kind == Kind::none) {
    if (spec.shape == Shape::ragged) return Values();
    if (!spec.has_default) return std::nullopt;
    return default_values(spec);
  }
  if (kind != stored_kind(spec.element)) return std::nullopt;
  const auto values = cast_values(found->second.feature, spec.element);
  if (!values) return std::nullopt;
  switch (spec.shape) {
    case Shape::ragged: return values;
    case Shape::fixed: return values->size() == spec.count ? values : std::nullopt;
    case Shape::span: return values->size() == 1 ? values : std::nullopt;
    case Shape::raw:
      return values->size() == 1 && (*values)[0].size() == spec.count ? values : std::nullopt;
  }
  return std::nullopt;
}

// ---- schemas ----

using Parsers = std::vector<std::unique_ptr<ExampleParser>>;

// Numbers of each kind in every shape; absent ones have a default.
std::unique_ptr<ExampleParser> lenient_schema(Element ints, Element floats) {
  const std::string one_int(element_bytes(ints), '\x01');
  const std::string one_float(element_bytes(floats), '\x01');
  using test::fixed, test::ragged, test::with_default;
  std::vector<FeatureSpec> specs = {ragged("a", ints),
                                    with_default(fixed("b", ints), {one_int}),
                                    with_default(fixed("c", ints, 3), {one_int, one_int, one_int}),
                                    ragged("d", floats),
                                    with_default(fixed("e", floats), {one_float}),
                                    with_default(fixed("g", floats, 2), {one_float, one_float}),
                                    ragged("s", Element::bytes),
                                    with_default(fixed("t", Element::bytes), {"default"}),
                                    with_default(fixed("u", Element::bytes, 2), {"", "x"})};
  return std::make_unique<ExampleParser>(std::move(specs));
}

std::unique_ptr<ExampleParser> strict_schema() {
  std::vector<FeatureSpec> specs = {
      test::fixed("b", Element::int64),    test::fixed("e", Element::float32),
      test::one_bytes("t", Shape::raw, 4), test::one_bytes("s", Shape::span),
      test::fixed("u", Element::bytes, 2), test::ragged("h", Element::int64)};
  return std::make_unique<ExampleParser>(std::move(specs));
}

constexpr std::size_t kMain = 2;  // the first ones, that every input is parsed with

const Parsers& parsers() {
  static const Parsers all = [] {
    Parsers made;
    made.push_back(lenient_schema(Element::int64, Element::float32));
    made.push_back(strict_schema());
    made.push_back(lenient_schema(Element::int32, Element::float64));
    made.push_back(lenient_schema(Element::uint8, Element::float16));
    made.push_back(lenient_schema(Element::boolean, Element::bfloat16));
    made.push_back(lenient_schema(Element::int16, Element::float32));
    made.push_back(lenient_schema(Element::int8, Element::float32));
    made.push_back(lenient_schema(Element::uint64, Element::float64));
    made.push_back(lenient_schema(Element::uint32, Element::float16));
    made.push_back(lenient_schema(Element::uint16, Element::bfloat16));
    return made;
  }();
  return all;
}

// ---- comparisons ----

std::string reason_of(const test::Parsed& parsed) {
  return parsed.good() ? "" : parsed.failures[0].reason;
}

void require_same(const ExampleParser& parser, const test::Parsed& parsed,
                  const Reference& reference, bool may_refuse) {
  std::vector<std::optional<Values>> wanted;
  Verdict verdict = reference.framing;
  for (const auto& spec : parser.specs()) {
    const auto found = reference.features.find(spec.name);
    if (found != reference.features.end()) verdict = join(verdict, found->second.verdict);
    wanted.push_back(expected_values(spec, reference));
    if (!wanted.back()) verdict = Verdict::refused;
  }
  if (verdict == Verdict::refused)
    return require(!parsed.good(), "accepted what protobuf or the schema refuses");
  if (!parsed.good()) {
    const bool tolerated = verdict == Verdict::either || may_refuse;
    return require(tolerated, "refused: " + reason_of(parsed));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const FeatureSpec& spec = parser.specs()[i];
    const Values& values = parsed.values[0][i];
    require(values.size() == wanted[i]->size(), "another number of values of " + spec.name);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const bool same = spec.element == Element::bytes
                            ? values[j] == (*wanted[i])[j]
                            : test::same_element(values[j], (*wanted[i])[j], spec.element);
      require(same, "another value of " + spec.name);
    }
  }
}

void check_alone(const std::string& record) {
  const Reference reference = read_framed(record);
  require_agreement_with_example(record, reference);
  const bool may_refuse = may_hold_wide_tag(record);
  const std::size_t other = kMain + record.size() % (parsers().size() - kMain);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, other}) {
    const ExampleParser& parser = *parsers()[i];
    require_same(parser, test::parse(parser, record), reference, may_refuse);
  }
}

// Spelled as writers do; has every feature of both schemas that batches are checked with.
std::string good_record() {
  using namespace test;
  return example(ints_entry("a", {1, 2, 300}) + ints_entry("b", {7}) + ints_entry("c", {1, 2, 3}) +
                 floats_entry("d", {0.5F, 1.5F}) + floats_entry("e", {2.5F}) +
                 floats_entry("g", {1, 2}) + ints_entry("other", {5}) + bytes_entry("s", {"word"}) +
                 bytes_entry("t", {"four"}) + bytes_entry("u", {"x", "y"}) + ints_entry("h", {}));
}

void check_together(std::vector<std::string> records) {
  static const std::string good = good_record();
  for (std::size_t i = 0; i < kMain; ++i) {
    const ExampleParser& parser = *parsers()[i];
    const std::string twice = test::difference_from_alone(parser, records, 80);
    require(twice.empty(), twice);
  }
  records.insert(records.begin(), good);
  for (std::size_t i = 0; i < kMain; ++i) {
    const std::string behind_good = test::difference_from_alone(*parsers()[i], records);
    require(behind_good.empty(), behind_good);
  }
}

std::vector<std::string> records_of(const std::string& input) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> records;
  const auto fields = split(input);
  if (!fields) return {input};
  for (const auto& field : *fields) {
    if (field.tag != "\x0a") return {input};
    if (records.size() < kMost) records.push_back(field.payload);
  }
  return records;
}

std::size_t give(const std::string& bytes, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it reports each key that is not UTF-8
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string mutated = tio::fuzz::WireMutator(seed).mutate(input, max_size);
  return tio::fuzz::give(mutated, data, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned seed) {
  const std::string message(reinterpret_cast<const char*>(first), first_size);
  const std::string other(reinterpret_cast<const char*>(second), second_size);
  return tio::fuzz::give(tio::fuzz::WireMutator(seed).cross(message, other), out, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto records = tio::fuzz::records_of(input);
  for (const auto& record : records) tio::fuzz::check_alone(record);
  tio::fuzz::check_together(records);
  if (tio::test::failures != 0) std::abort();
  return 0;
}
