// Compares the parser with protobuf on SequenceExamples: the same bytes are accepted and the same
// steps and values read, of contexts and feature lists, from records alone and after others. The
// fault of a rejected record is explained, and lies inside it. model.h lists the intended
// differences.
#include <string>
#include <vector>

#include "batch.h"
#include "batch_target.h"
#include "encode.h"
#include "model.h"
#include "pieces.h"

namespace tio::fuzz {
namespace {

using test::on_request, test::fixed, test::flat, test::in_lists, test::with_int32_splits,
    test::optional;
using test::padded, test::ragged, test::with_default;

// Accepts nearly every SequenceExample. The keys of context and lists are the same on purpose.
std::vector<FeatureSpec> lenient_schema(Dtype ints, Dtype floats) {
  return {ragged("a", ints),
          with_default(fixed("b", ints), {std::string(element_bytes(ints), '\x01')}),
          flat("s", Dtype::bytes),
          in_lists(ragged("a", ints)),
          in_lists(with_int32_splits(ragged("d", floats))),
          in_lists(ragged("s", Dtype::bytes)),
          in_lists(ragged("b", ints))};
}

// Columns on request or without row splits, several of each stored list.
std::vector<FeatureSpec> on_request_schema(Dtype ints, Dtype floats) {
  return {in_lists(on_request("a")),
          in_lists(flat("a", ints)),
          in_lists(with_int32_splits(ragged("a", ints))),
          in_lists(flat("d", floats)),
          in_lists(flat("s", Dtype::bytes)),
          in_lists(on_request("s", Dtype::bytes)),
          in_lists(with_int32_splits(ragged("s", Dtype::bytes))),
          on_request("a")};
}

// Steps of a size, padded.
std::vector<FeatureSpec> padded_schema(Dtype ints, Dtype floats) {
  return {in_lists(optional(padded("b", ints, 1, "\x05"))),
          in_lists(optional(padded("c", ints, 2, "\x06"))),
          in_lists(optional(padded("e", floats, 1, "\x07"))),
          in_lists(optional(padded("t", Dtype::bytes, 1, "fill"))),
          in_lists(optional(padded("u", Dtype::bytes, 2, ""))),
          optional(padded("a", ints, 1, "\x08"))};
}

std::vector<FeatureSpec> strict_schema() {
  return {fixed("b", Dtype::int64), in_lists(padded("b", Dtype::int64)),
          in_lists(padded("c", Dtype::int64, 2)), in_lists(padded("e", Dtype::float32)),
          in_lists(padded("t", Dtype::bytes, 1, "-"))};
}

constexpr std::size_t kMain = 4;  // the first parsers, which parse every input

const Parsers& parsers() {
  static const Parsers all = [] {
    Parsers made;
    add_parser(made, lenient_schema(Dtype::int64, Dtype::float32));
    add_parser(made, on_request_schema(Dtype::int64, Dtype::float32));
    add_parser(made, padded_schema(Dtype::int64, Dtype::float32));
    add_parser(made, strict_schema());
    add_parser(made, lenient_schema(Dtype::int32, Dtype::float64));
    add_parser(made, lenient_schema(Dtype::uint8, Dtype::float16));
    add_parser(made, on_request_schema(Dtype::int16, Dtype::bfloat16));
    add_parser(made, on_request_schema(Dtype::boolean, Dtype::float64));
    add_parser(made, padded_schema(Dtype::int32, Dtype::float16));
    add_parser(made, padded_schema(Dtype::uint8, Dtype::float64));
    return made;
  }();
  return all;
}

// Encoded as writers do, with every feature of the schemas.
std::string good_record() {
  using namespace test;
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  const std::string word = feature(Kind::bytes, bytes_values({"word"}));
  const std::string pair = feature(Kind::ints, packed_ints({1, 2}));
  const std::string one = feature(Kind::ints, packed_ints({1}));
  return sequence(ints_entry("a", {1, 2, 300}) + ints_entry("b", {7}) + bytes_entry("s", {"x"}),
                  list_entry("a", {one, pair, feature(Kind::ints, "")}) +
                      list_entry("b", {one, one}) + list_entry("c", {pair}) +
                      list_entry("d", {number}) + list_entry("e", {number, number, number}) +
                      list_entry("other", {one}) + list_entry("s", {word, word}) +
                      list_entry("t", {word}));
}

}  // namespace

void run(const std::vector<std::string>& records) {
  static const std::string good = good_record();
  require_all(parsers(), kMain, records, good, read_sequence);
  static const PieceKeys keys{{"a"}, {"b"}, {{"a", 0}}, true};
  require_pieces(records, keys);
}

}  // namespace tio::fuzz
