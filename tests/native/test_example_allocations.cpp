// Memory runs out at each allocation that parses or writes Examples: an exception,
// or the right result, and everything can be used again afterwards.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allocations.h"
#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/encoder.h"
#include "example/example_list.h"
#include "example/located_batch.h"
#include "example/survey.h"
#include "example/tensor_batch.h"
#include "file.h"
#include "records/frame_gather.h"
#include "records/framing.h"
#include "repair.h"
#include "tensor.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// ---- Examples ----

// Columns of every type, of a record that has all features.
std::vector<FeatureSpec> all_specs() {
  return {fixed("one", Dtype::int64),
          fixed("three", Dtype::float32, 3),
          fixed("text", Dtype::bytes),
          with_default(fixed("absent", Dtype::int16), {little_endian(std::int16_t{7})}),
          with_default(fixed("absent text", Dtype::bytes), {"nothing"}),
          ragged("ints", Dtype::int64),
          with_int32_splits(ragged("floats", Dtype::float64)),
          ragged("texts", Dtype::bytes),
          flat("ints", Dtype::uint8),
          padded("ints", Dtype::int32),
          padded("texts", Dtype::bytes, 1, "fill"),
          one_bytes("text", ColumnType::raw_bytes, 5),
          one_bytes("text", ColumnType::resized_bytes, 9),
          one_bytes("text", ColumnType::span),
          on_request("ints"),
          on_request("texts", Dtype::bytes)};
}

std::string all_entries(std::int64_t number) {
  const std::vector<std::int64_t> some(static_cast<std::size_t>(number % 5), number);
  const std::vector<std::string> texts(static_cast<std::size_t>(number % 3),
                                       "a value of some size");
  return ints_entry("one", {number}) + floats_entry("three", {1, 2, 3}) +
         bytes_entry("text", {"bytes"}) + ints_entry("ints", some) +
         floats_entry("floats", {0.5F}) + bytes_entry("texts", texts);
}

std::vector<FeatureSpec> list_specs() {
  std::vector<FeatureSpec> specs = all_specs();
  for (const Dtype dtype : {Dtype::int64, Dtype::bytes}) {
    const std::string key = dtype == Dtype::int64 ? "int steps" : "text steps";
    specs.push_back(in_lists(ragged(key, dtype)));
    specs.push_back(in_lists(flat(key, dtype)));
    specs.push_back(in_lists(padded(key, dtype, 1, "fill")));
    specs.push_back(in_lists(on_request(key, dtype)));
  }
  return specs;
}

std::string all_lists(std::int64_t number) {
  std::vector<std::string> ints(static_cast<std::size_t>(number % 4));
  for (auto& step : ints) step = feature(Kind::ints, packed_ints({number}));
  return list_entry("int steps", ints) +
         list_entry("text steps", {feature(Kind::bytes, bytes_values({"a step"}))});
}

// What a batch is parsed to: its values, or the reasons of its failures.
using Result = std::pair<std::vector<std::vector<Cell>>, std::vector<std::string>>;

Result parsed(const std::vector<FeatureSpec>& specs, const Batch& batch) {
  const ExampleParser parser(specs);
  Parsed parsed = parse(parser, batch);
  std::vector<std::string> reasons;
  for (const Failure& failure : parsed.failures) reasons.push_back(failure.reason);
  return {std::move(parsed.cells), std::move(reasons)};
}

void check_parsing(const char* name, const std::vector<FeatureSpec>& specs,
                   const std::vector<std::string>& records, bool is_good) {
  const Batch batch = joined(records, {2, 0, 1});
  CHECK_EQ(parsed(specs, batch).second.empty(), is_good);
  fail_each_allocation(name, [&] { return parsed(specs, batch); });
}

void test_parsing() {
  std::vector<std::string> examples;
  std::vector<std::string> sequences;
  for (const std::int64_t number : {5, 201, 2}) {
    examples.push_back(example(all_entries(number)));
    sequences.push_back(sequence(all_entries(number), all_lists(number)));
  }
  check_parsing("parsing Examples", all_specs(), examples, true);
  check_parsing("parsing SequenceExamples", list_specs(), sequences, true);
  const std::vector<FeatureSpec> numbers = {fixed("one", Dtype::int64),
                                            fixed("three", Dtype::float32, 3)};
  check_parsing("parsing fixed columns", numbers, examples, true);
  for (const std::string& damaged :
       {examples[1].substr(0, 30), example(ints_entry("one", {1, 2})), std::string(),
        example(bytes_entry("one", {"a"})), sequences[0] + std::string("\x0a\xff")}) {
    check_parsing("rejecting Examples", all_specs(), {examples[0], damaged, damaged}, false);
    check_parsing("rejecting fixed columns", numbers, {examples[0], damaged, damaged}, false);
  }
  // The second pass fails.
  check_parsing("rejecting values", {fixed("one", Dtype::int8), ragged("ints", Dtype::boolean)},
                examples, false);
}

// The parser and the records are used again after a failure.
void test_parser_afterwards() {
  const ExampleParser parser(all_specs());
  const Batch batch = apart({example(all_entries(4)), example(all_entries(9))});
  fail_each_allocation("parsing with one parser", [&] { return parse(parser, batch).cells; });
}

void test_records() {
  const std::vector<std::byte> buffer(100);
  const Numbers starts = {50, 0, 20};
  const Numbers sizes = {10, 20, 30};
  fail_each_allocation("records", [&] {
    const Records records(buffer, starts, sizes, std::make_shared<int>(1));
    const Records views({records[0], records[1]}, std::make_shared<int>(2));
    return std::vector(records.order().begin(), records.order().end());
  });
}

void test_example_lists() {
  const std::string list = delimited(1, example(all_entries(1))) + delimited(2, "");
  const Batch batch = apart({list, list + "\x08", list + list});
  fail_each_allocation("example lists", [&] {
    const ListParts parts = split_lists(batch.records);
    return std::pair(parts.example_offsets, parts.failures.at(0).reason);
  });
}

void test_survey() {
  const auto printable =
      std::make_shared<const CharacterSet>(std::vector<std::byte>(CharacterSet::kBytes));
  std::vector<std::string> records;
  for (const std::int64_t number : {5, 201, 2}) {
    records.push_back(sequence(all_entries(number), all_lists(number)));
  }
  records.push_back(example(bytes_entry("image", {"GIF89a and so on"})));
  records.push_back(example(ints_entry("new", {1})) + "\xff");
  const Batch batch = apart(records);
  const auto names_of = [](const Survey& survey) {
    std::vector<std::string> names;
    for (const FeatureTable* table : {&survey.context(), &survey.lists()}) {
      for (const SurveyedFeature* feature : table->all()) names.emplace_back(feature->name);
    }
    return names;
  };
  fail_each_allocation("surveys", [&] {
    Survey survey(printable, true);
    const SurveyedBatch found = survey.add(batch.records);
    return std::tuple(names_of(survey), found.rejected, found.images.size());
  });
  // A survey is used again after a failure. Records that it was adding may count twice.
  fail_each_allocation(
      "one survey", [&] { return std::make_shared<Survey>(printable, true); },
      [&](const std::shared_ptr<Survey>& survey) {
        const auto rejected = survey->add(batch.records).rejected;
        auto names = names_of(*survey);
        std::ranges::sort(names);
        return std::pair(rejected, names);
      });
}

void test_tensors() {
  const std::string numbers = head(TensorType::int64, {2}) + varint_list(10, {3, 4});
  const std::string strings = head(TensorType::string, {2}) + string_list({"a", "bc"});
  for (const auto& [type, message] :
       {std::pair(TensorType::int64, numbers), std::pair(TensorType::string, strings)}) {
    fail_each_allocation("tensors", [&] { return read_tensor(message, type).values(); });
    fail_each_allocation("rejecting tensors",
                         [&] { return read_tensor(message, TensorType::float32).reason; });
  }

  // One of the two records has another type.
  const Batch batch =
      apart({example(bytes_entry("a", {numbers})), example(bytes_entry("a", {strings}))});
  const ExampleParser parser({one_bytes("a", ColumnType::span)});
  const LocateResult located = parser.locate(batch.records);
  const auto records = std::make_shared<const Records>(batch.records);
  fail_each_allocation("batches of tensors", [&] {
    const TensorBatch tensors(parser, records, located, 0, TensorType::int64);
    std::vector<std::byte> arena(16);
    const std::vector<std::uint64_t> at = {0, 0};
    return std::pair(tensors.failures().at(0).reason, tensors.fill(at, at, arena).size());
  });
}

void test_encoder() {
  struct State {
    MessageEncoder encoder;
    Message message;
  };
  fail_each_allocation(
      "encoding", [] { return std::make_shared<State>(); },
      [](const std::shared_ptr<State>& state) {
        Message& message = state->message;
        message.clear();
        const auto value = std::as_bytes(std::span("some bytes"));
        for (MessagePart* part : {&message.context, &message.sequence}) {
          part->is_present = true;
          for (std::size_t i = 0; i < 3; ++i) {
            const std::size_t at = message.features.size();
            part->entries.push_back({value.first(5 - i), at, at + 1});
            message.features.push_back({Kind::ints, i, i + 1});
            message.ints.push_back(static_cast<std::int64_t>(i));
          }
        }
        CHECK(!state->encoder.sort(message));
        std::vector<std::byte> out(state->encoder.measure(message).value());
        state->encoder.write(message, out);
        return out;
      });
}

// ---- loading ----

// A file with the frames of some records, and the reads that fetch a batch of them.
struct Reads {
  explicit Reads(const std::vector<std::string>& records) {
    std::string bytes;
    ReadPlan made;
    Numbers starts;
    Numbers sizes;
    for (const std::string& record : records) {
      made.numbers.push_back(static_cast<std::int64_t>(made.numbers.size()));
      made.frame_starts.push_back(static_cast<std::int64_t>(bytes.size()));
      made.frame_sizes.push_back(static_cast<std::int64_t>(record.size() + kFrameOverheadBytes));
      starts.push_back(made.frame_starts.back() + 12);
      sizes.push_back(static_cast<std::int64_t>(record.size()));
      bytes += frame(record);
    }
    made.files = {0};
    made.buffer_bytes = static_cast<std::int64_t>(bytes.size());
    made.ranges = {{0, made.buffer_bytes, 0}};
    made.range_bounds = {0, 1};
    file.emplace(std::as_bytes(std::span(bytes)));
    buffer.resize(bytes.size());
    batch = {std::vector<int>{file->fd()}, std::make_shared<const ReadPlan>(made), buffer, nullptr,
             std::make_shared<const Records>(Bytes(buffer), starts, sizes)};
  }

  std::optional<File> file;
  std::vector<std::byte> buffer;
  BatchReads batch;
};

void test_loading() {
  const Reads reads({example(all_entries(3)), example(all_entries(8))});
  const std::vector<const BatchReads*> batches = {&reads.batch, &reads.batch};
  const auto parser = std::make_shared<const ExampleParser>(all_specs());
  const std::vector<LocatedBatch> sample = load_batches(parser, batches, true);
  CHECK_EQ(sample.size(), 2U);
  Arena arena(*parser, sample.at(0).located());
  const std::vector<BatchTarget> targets(2, BatchTarget{arena.columns(), arena.bytes()});
  fail_each_allocation("loading batches", [&] {
    const std::vector<LocatedBatch> loaded = load_batches(parser, batches, true);
    std::vector<const LocatedBatch*> located;
    for (const LocatedBatch& one : loaded) located.push_back(&one);
    return fill_batches(located, targets).count;
  });
  const ExampleParser numbers({fixed("one", Dtype::int64)});
  Arena small(numbers, numbers.locate(*reads.batch.records));
  const std::vector<BatchTarget> small_targets(2, BatchTarget{small.columns(), small.bytes()});
  fail_each_allocation("loading fixed batches", [&] {
    return load_fixed_batches(numbers, batches, small_targets, true).value().count;
  });
}

void test_parts_that_allocate_nothing() {
  const Reads reads({"a", "bcd"});
  const BatchReads& batch = reads.batch;
  const FrameBlock block{batch.plan, reads.buffer, nullptr};
  const std::vector<const FrameBlock*> blocks = {&block};
  const Numbers zeros = {0, 0};
  std::vector<std::byte> gathered(reads.buffer.size());
  const std::string record = example(all_entries(3));
  const auto bytes = std::as_bytes(std::span(record));
  std::vector<std::byte> framed(record.size() + kFrameOverheadBytes);
  const ExampleParser parser(all_specs());
  check_allocates_nothing("frames", [&] {
    write_frames(std::span(&bytes, 1), framed);
    return read_frames(*batch.plan, *batch.descriptors, batch.buffer, true) &&
           !gather_frames(blocks, std::span(zeros).first(1), *batch.plan, zeros, gathered);
  });
  check_allocates_nothing("explaining", [&] { return !explain(parser, bytes); });
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_parsing();
  test_parser_afterwards();
  test_records();
  test_example_lists();
  test_survey();
  test_tensors();
  test_encoder();
  test_loading();
  test_parts_that_allocate_nothing();
  return finish();
}
