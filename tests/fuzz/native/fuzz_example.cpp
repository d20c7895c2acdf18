// Compares the parser with protobuf on Examples: the same bytes are accepted and the same values
// read, from records alone and after others. The fault of a rejected record is explained, and lies
// inside it. model.h lists the intended differences.
#include <string>
#include <vector>

#include "batch.h"
#include "batch_target.h"
#include "encode.h"
#include "model.h"
#include "pieces.h"

namespace tio::fuzz {
namespace {

using test::on_request, test::fixed, test::flat, test::with_int32_splits, test::one_bytes,
    test::optional;
using test::padded, test::ragged, test::with_default;

// Accepts nearly every Example: absent features have a default.
std::vector<FeatureSpec> lenient_schema(Dtype ints, Dtype floats) {
  const std::string one_int(element_bytes(ints), '\x01');
  const std::string one_float(element_bytes(floats), '\x01');
  return {ragged("a", ints),
          with_default(fixed("b", ints), {one_int}),
          with_default(fixed("c", ints, 3), {one_int, one_int, one_int}),
          ragged("d", floats),
          with_default(fixed("e", floats), {one_float}),
          with_default(fixed("g", floats, 2), {one_float, one_float}),
          ragged("s", Dtype::bytes),
          with_default(fixed("t", Dtype::bytes), {"default"}),
          with_default(fixed("u", Dtype::bytes, 2), {"", "x"})};
}

std::vector<FeatureSpec> strict_schema() {
  return {fixed("b", Dtype::int64),
          fixed("e", Dtype::float32),
          one_bytes("t", ColumnType::raw_bytes, 4),
          one_bytes("t", ColumnType::resized_bytes, 7),
          one_bytes("s", ColumnType::span),
          one_bytes("s", ColumnType::resized_bytes, 2),
          fixed("u", Dtype::bytes, 2),
          with_int32_splits(ragged("h", Dtype::int64)),
          padded("c", Dtype::int64, 3),
          padded("g", Dtype::float32, 2),
          padded("u", Dtype::bytes, 2, "-")};
}

// The other column types, several of each stored feature.
std::vector<FeatureSpec> shapes_schema(Dtype ints, Dtype floats) {
  return {on_request("a"),
          flat("a", ints),
          optional(padded("a", ints, 1, "\x05")),
          flat("d", floats),
          optional(padded("d", floats, 1, "\x06")),
          with_int32_splits(ragged("d", floats)),
          flat("s", Dtype::bytes),
          on_request("s", Dtype::bytes),
          optional(padded("s", Dtype::bytes, 1, "fill")),
          optional(padded("c", ints, 3, "\x07"))};
}

// Columns that `parse_fixed` accepts.
std::vector<FeatureSpec> fixed_schema() {
  return {with_default(fixed("b", Dtype::int64), {"12345678"}),
          with_default(fixed("b", Dtype::int16), {"12"}),
          with_default(fixed("c", Dtype::int64, 3), Values(3, "abcdefgh")),
          with_default(fixed("e", Dtype::float32), {"1234"}),
          with_default(fixed("g", Dtype::float64, 2), Values(2, "abcdefgh"))};
}

constexpr std::size_t kMain = 4;  // the first parsers, which parse every input

const Parsers& parsers() {
  static const Parsers all = [] {
    Parsers made;
    add_parser(made, lenient_schema(Dtype::int64, Dtype::float32));
    add_parser(made, strict_schema());
    add_parser(made, shapes_schema(Dtype::int64, Dtype::float32));
    add_parser(made, fixed_schema());
    add_parser(made, lenient_schema(Dtype::int32, Dtype::float64));
    add_parser(made, lenient_schema(Dtype::uint8, Dtype::float16));
    add_parser(made, lenient_schema(Dtype::boolean, Dtype::bfloat16));
    add_parser(made, lenient_schema(Dtype::int16, Dtype::float32));
    add_parser(made, lenient_schema(Dtype::int8, Dtype::float32));
    add_parser(made, lenient_schema(Dtype::uint64, Dtype::float64));
    add_parser(made, lenient_schema(Dtype::uint32, Dtype::float16));
    add_parser(made, lenient_schema(Dtype::uint16, Dtype::bfloat16));
    add_parser(made, shapes_schema(Dtype::int32, Dtype::float16));
    add_parser(made, shapes_schema(Dtype::uint8, Dtype::float64));
    return made;
  }();
  return all;
}

// Encoded as writers do, with every feature of the schemas.
std::string good_record() {
  using namespace test;
  return example(ints_entry("a", {1, 2, 300}) + ints_entry("b", {7}) + ints_entry("c", {1, 2, 3}) +
                 floats_entry("d", {0.5F, 1.5F}) + floats_entry("e", {2.5F}) +
                 floats_entry("g", {1, 2}) + ints_entry("other", {5}) + bytes_entry("s", {"word"}) +
                 bytes_entry("t", {"four"}) + bytes_entry("u", {"x", "y"}) + ints_entry("h", {}));
}

}  // namespace

void run(const std::vector<std::string>& records) {
  static const std::string good = good_record();
  require_all(parsers(), kMain, records, good, read_example);
  static const PieceKeys keys{{"a", "b"}, {}, {{"s", 0}, {"g", 4}}, false};
  require_pieces(records, keys);
}

}  // namespace tio::fuzz
