// The reference for parsing: the values that protobuf and a schema read from a record.
//
// Intended differences:
//  - Features that the schema does not have are not read, so damage in them is not detected, and
//  keys
//    need not be UTF-8. With the messages of framed.proto, protobuf reads the same way. Records
//    that protobuf accepts as an Example or SequenceExample must also be accepted so, with equal
//    Features.
//  - Depth: protobuf counts the depth of a group from the root message, the core from the field
//  that
//    contains it. At the few levels in between, both results are right (Verdict::either).
//  - Tags of five bytes may have more than 32 bits. This protobuf drops the extra bits. The core
//  rejects
//    them, because such field numbers do not exist (may_hold_wide_tag).
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch.h"
#include "example.pb.h"
#include "framed.pb.h"
#include "reference.h"
#include "require.h"

namespace tio::fuzz {

using test::Cell;
using test::Values;
using torchrec_io::Feature;
using torchrec_io::FeatureList;
using Message = google::protobuf::MessageLite;

enum class Verdict { refused, accepted, either };

// ---- validity in protobuf ----

constexpr int kDeepest = 100;

inline bool merge(const std::string& bytes, int depth, Message& message) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(depth);
  return message.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// Parses with the depth limit of the root, and again with that of a message `levels` below it.
inline Verdict merge_at(const std::string& bytes, int levels, Message& message) {
  std::unique_ptr<Message> strict(message.New());
  if (!merge(bytes, kDeepest + levels, message)) return Verdict::refused;
  return merge(bytes, kDeepest, *strict) ? Verdict::accepted : Verdict::either;
}

// Returns the worse verdict: a message is refused if any part is.
inline Verdict worse(Verdict a, Verdict b) {
  if (a == Verdict::refused || b == Verdict::refused) return Verdict::refused;
  return a == Verdict::either ? a : b;
}

// A Feature or a FeatureList.
template <class T>
struct ReadValue {
  Verdict verdict = Verdict::accepted;  // of all entries of the key, also of replaced ones
  T value;
};
template <class T>
using ReadMap = std::map<std::string, ReadValue<T>>;

struct Reference {
  Verdict framing = Verdict::accepted;
  ReadMap<Feature> context;  // of an Example, its features
  ReadMap<FeatureList> lists;
};

template <class T>
ReadMap<T> read_map(const torchrec_io::fuzz::FramedFeatures& framed, int levels) {
  ReadMap<T> map;
  for (const auto& entry : framed.feature()) {
    ReadValue<T>& read = map[entry.key()];
    read.value.Clear();  // the last entry of a key counts
    for (const auto& value : entry.value()) {
      read.verdict = worse(read.verdict, merge_at(value, levels, read.value));
    }
  }
  return map;
}

template <class T, class Map>
void require_agreement(const Map& whole, const ReadMap<T>& framed) {
  require(whole.size() == framed.size(), "protobuf reads other features");
  for (const auto& [key, read] : framed) {
    const auto found = whole.find(key);
    require(found != whole.end(), "protobuf lacks a feature");
    require(read.verdict != Verdict::refused, "protobuf has a Feature that is none");
    require(found->second.SerializeAsString() == read.value.SerializeAsString(),
            "protobuf has another Feature");
  }
}

inline Reference read_example(const std::string& record) {
  Reference reference;
  torchrec_io::fuzz::FramedExample framed;
  reference.framing = merge_at(record, 2, framed);
  reference.context = read_map<Feature>(framed.features(), 1);
  torchrec_io::Example example;
  if (merge(record, kDeepest, example)) {
    require(reference.framing != Verdict::refused, "an Example is no FramedExample");
    require_agreement(example.features().feature(), reference.context);
  }
  return reference;
}

inline Reference read_sequence(const std::string& record) {
  Reference reference;
  torchrec_io::fuzz::FramedSequence framed;
  reference.framing = merge_at(record, 2, framed);
  reference.context = read_map<Feature>(framed.context(), 1);
  reference.lists = read_map<FeatureList>(framed.feature_lists(), 2);
  torchrec_io::SequenceExample sequence;
  if (merge(record, kDeepest, sequence)) {
    require(reference.framing != Verdict::refused, "a SequenceExample is no FramedSequence");
    require_agreement(sequence.context().feature(), reference.context);
    require_agreement(sequence.feature_lists().feature_list(), reference.lists);
  }
  return reference;
}

inline bool may_hold_wide_tag(const std::string& record) {
  for (std::size_t i = 4; i < record.size(); ++i) {
    const auto byte = [&](std::size_t back) {
      return static_cast<unsigned char>(record[i - back]);
    };
    const bool fifth = byte(4) >= 0x80 && byte(3) >= 0x80 && byte(2) >= 0x80 && byte(1) >= 0x80;
    if (fifth && byte(0) >= 0x10 && byte(0) < 0x80) return true;
  }
  return false;
}

// ---- columns of a schema ----

// Returns the values of a Feature as the column stores them, or nothing if one does not fit.
inline std::optional<Values> cast_values(const Feature& feature, Dtype dtype) {
  Values values;
  for (const auto& value : feature.bytes_list().value()) values.push_back(value);
  const auto add = [&](const auto& numbers) {
    for (const auto number : numbers) {
      const auto cast = test::reference_cast(number, dtype);
      if (!cast) return false;
      values.push_back(*cast);
    }
    return true;
  };
  if (feature.has_int64_list() && !add(feature.int64_list().value())) return std::nullopt;
  if (feature.has_float_list() && !add(feature.float_list().value())) return std::nullopt;
  return values;
}

inline Values default_values(const FeatureSpec& spec) {
  Values values;
  std::size_t at = 0;
  const auto* data = reinterpret_cast<const char*>(spec.default_data.data());
  for (std::uint64_t i = 0; i < spec.count; ++i) {
    const std::size_t size =
        spec.dtype == Dtype::bytes ? spec.default_sizes[i] : element_bytes(spec.dtype);
    values.emplace_back(data + at, size);
    at += size;
  }
  return values;
}

// Divides values into units of `count` values.
inline std::optional<Cell> units_of(Values values, std::uint64_t count) {
  if (values.size() % count != 0) return std::nullopt;
  std::vector<std::uint64_t> units(values.size() / count, count);
  return Cell{std::move(values), std::move(units)};
}

inline std::optional<Cell> shape_values(const FeatureSpec& spec, Values values) {
  const std::uint64_t size = values.size();
  const bool is_one = size == 1;
  switch (spec.column_type) {
    case ColumnType::ragged:
    case ColumnType::flat:
    case ColumnType::on_request: return Cell{std::move(values), {size}};
    case ColumnType::padded: return units_of(std::move(values), spec.count);
    case ColumnType::fixed:
      if (size != spec.count) return std::nullopt;
      return Cell{std::move(values), {size}};
    case ColumnType::raw_bytes:
      if (!is_one || values[0].size() != spec.count) return std::nullopt;
      return Cell{std::move(values), {1}};
    case ColumnType::resized_bytes:
      if (!is_one) return std::nullopt;
      values[0].resize(spec.count, '\0');
      return Cell{std::move(values), {1}};
    case ColumnType::span:
      if (!is_one) return std::nullopt;
      return Cell{std::move(values), {1}};
  }
  return std::nullopt;
}

inline bool may_be_missing(const FeatureSpec& spec) {
  return spec.is_optional || spec.column_type == ColumnType::ragged ||
         spec.column_type == ColumnType::flat || spec.column_type == ColumnType::on_request;
}

inline std::optional<Cell> expected_feature(const FeatureSpec& spec, const Reference& reference) {
  const auto found = reference.context.find(spec.key);
  const Kind kind = found == reference.context.end()
                        ? Kind::none
                        : static_cast<Kind>(found->second.value.kind_case());
  if (kind == Kind::none) {
    if (!may_be_missing(spec)) return std::nullopt;
    return shape_values(spec,
                        spec.column_type == ColumnType::fixed ? default_values(spec) : Values());
  }
  if (kind != stored_kind(spec.dtype)) return std::nullopt;
  auto values = cast_values(found->second.value, spec.dtype);
  if (!values) return std::nullopt;
  return shape_values(spec, std::move(*values));
}

inline std::optional<Cell> expected_list(const FeatureSpec& spec, const Reference& reference) {
  const auto found = reference.lists.find(spec.key);
  Cell cell;
  if (found == reference.lists.end()) {
    if (!may_be_missing(spec)) return std::nullopt;
    return cell;
  }
  for (const Feature& step : found->second.value.feature()) {
    const Kind kind = static_cast<Kind>(step.kind_case());
    if (kind != Kind::none && kind != stored_kind(spec.dtype)) return std::nullopt;
    const auto values = cast_values(step, spec.dtype);
    if (!values) return std::nullopt;
    if (spec.column_type == ColumnType::padded && values->size() != spec.count) return std::nullopt;
    cell.values.insert(cell.values.end(), values->begin(), values->end());
    cell.units.push_back(values->size());
  }
  return cell;
}

// Returns the values of a feature in a record, or nothing if the schema rejects it.
inline std::optional<Cell> expected_cell(const FeatureSpec& spec, const Reference& reference) {
  return spec.in_lists ? expected_list(spec, reference) : expected_feature(spec, reference);
}

// ---- the comparison ----

// Returns the verdict on all stored features that the parser reads.
inline Verdict verdict_of(const ExampleParser& parser, const Reference& reference) {
  Verdict verdict = reference.framing;
  const auto add = [&](const auto& map, const std::string& key) {
    const auto found = map.find(key);
    if (found != map.end()) verdict = worse(verdict, found->second.verdict);
  };
  for (const FeatureSpec& spec : parser.specs()) {
    spec.in_lists ? add(reference.lists, spec.key) : add(reference.context, spec.key);
  }
  return verdict;
}

inline void require_same_cell(const FeatureSpec& spec, const Cell& cell, const Cell& wanted) {
  require(cell.units == wanted.units, "other units of " + spec.key);
  require(cell.values.size() == wanted.values.size(), "another number of values of " + spec.key);
  for (std::size_t i = 0; i < cell.values.size(); ++i) {
    const bool same = spec.dtype == Dtype::bytes
                          ? cell.values[i] == wanted.values[i]
                          : test::same_element(cell.values[i], wanted.values[i], spec.dtype);
    require(same, "another value of " + spec.key);
  }
}

// Parses one record by itself and compares.
inline void require_same(const ExampleParser& parser, const std::string& record,
                         const Reference& reference) {
  const test::Parsed parsed = test::parse(parser, record);
  std::vector<std::optional<Cell>> wanted;
  Verdict verdict = verdict_of(parser, reference);
  for (const auto& spec : parser.specs()) {
    wanted.push_back(expected_cell(spec, reference));
    if (!wanted.back()) verdict = Verdict::refused;
  }
  if (verdict == Verdict::refused) {
    return require(!parsed.good(), "accepted a record that protobuf or the schema rejects");
  }
  if (!parsed.good()) {
    const bool tolerated = verdict == Verdict::either || may_hold_wide_tag(record);
    return require(tolerated, "refused: " + parsed.failures[0].reason);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    require_same_cell(parser.specs()[i], parsed.cells[0][i], *wanted[i]);
  }
}

// ---- schemas ----

using Parsers = std::vector<std::unique_ptr<ExampleParser>>;

inline void add_parser(Parsers& parsers, std::vector<FeatureSpec> specs) {
  for (const FeatureSpec& spec : specs) {
    require(spec.fault() == nullptr, "no sensible spec: " + spec.key);
  }
  parsers.push_back(std::make_unique<ExampleParser>(std::move(specs)));
}

// Records must have the same values after each other, and before and after a good one. Each input
// checks two of the first `count` parsers, selected by its size.
inline void require_same_together(const Parsers& parsers, std::size_t count,
                                  const std::vector<std::string>& records,
                                  const std::string& good) {
  std::size_t size = 0;
  for (const auto& record : records) size += record.size();
  std::vector<std::string> batch = records;
  batch.insert(size % 2 == 0 ? batch.begin() : batch.end(), good);
  for (const std::size_t i : {size / 2, size / 2 + 1}) {
    const std::string difference = test::difference_from_alone(*parsers[i % count], batch);
    require(difference.empty(), difference);
  }
}

// Runs all checks of an input. Each record is parsed alone with the first `main` parsers and one of
// the others, and compared with the result of `read`.
template <class Read>
void require_all(const Parsers& parsers, std::size_t main, const std::vector<std::string>& records,
                 const std::string& good, Read&& read) {
  for (const auto& record : records) {
    const Reference reference = read(record);
    const std::size_t other = main + record.size() % (parsers.size() - main);
    for (std::size_t i = 0; i < main; ++i) require_same(*parsers[i], record, reference);
    require_same(*parsers[other], record, reference);
  }
  require_same_together(parsers, main, records, good);
}

}  // namespace tio::fuzz
