// Pieces of records with steps: where they lie, and records of which none are known.
#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/step_pieces.h"
#include "wire/crc32c.h"

namespace tio::test {
namespace {

const PieceKeys kKeys{{"id", "absent"}, {}, {{"image", 0}, {"vector", 8}}, false};

std::string content(const std::string& record, const Piece& piece) {
  const std::string part = record.substr(piece.offset, piece.size);
  CHECK_EQ(piece.crc, crc32c(std::as_bytes(std::span(part))));
  return part;
}

std::string usual(const std::string& also = "") {
  return ints_entry("id", {7}) + bytes_entry("image", {"one", "two!"}) + bytes_entry("x", {"y"}) +
         floats_entry("vector", {1, 2, 3, 4}) + also;
}

void test_pieces_of_an_example() {
  const std::string record = example(usual());
  const StepPieces found = locate_pieces(apart({record, record}).records, kKeys);
  CHECK_EQ(found.counts, (std::vector<std::int64_t>{6, 6}));
  CHECK_EQ(found.pieces.size(), 12U);
  const auto at = [&](std::size_t i) { return content(record, found.pieces[6 + i]); };
  CHECK_EQ(at(0), ints_entry("id", {7}));
  CHECK_EQ(found.pieces[1].size, 0U);
  CHECK_EQ(at(2), delimited(1, "one"));
  CHECK_EQ(at(3), delimited(1, "two!"));
  CHECK_EQ(at(4), little_endian(1.0F) + little_endian(2.0F));
  CHECK_EQ(at(5), little_endian(3.0F) + little_endian(4.0F));
}

void test_pieces_of_a_sequence() {
  const std::string word = feature(Kind::bytes, bytes_values({"word"}));
  const std::string number = feature(Kind::ints, packed_ints({1}));
  const std::string record =
      sequence(ints_entry("id", {7}),
               list_entry("number", {number, number}) + list_entry("word", {word, word}));
  const PieceKeys keys{{"id"}, {"number"}, {{"word", 0}}, true};
  const StepPieces found = locate_pieces(apart({record}).records, keys);
  CHECK_EQ(found.counts, (std::vector<std::int64_t>{4}));
  CHECK_EQ(content(record, found.pieces[0]), ints_entry("id", {7}));
  CHECK_EQ(content(record, found.pieces[1]), list_entry("number", {number, number}));
  CHECK_EQ(content(record, found.pieces[3]), delimited(1, word));
}

// Records that protobuf reads, but that have parts where pieces are not looked for.
void test_unusual_records() {
  const std::string image = bytes_entry("image", {"one", "two!"});
  const std::string bytes = feature(Kind::bytes, bytes_values({"one", "two!"}));
  const std::string rest = ints_entry("id", {7}) + floats_entry("vector", {1, 2, 3, 4});
  CHECK_EQ(locate_pieces(apart({example(rest + image)}).records, kKeys).counts[0], 6);
  CHECK_EQ(locate_pieces(apart({example(rest) + example(image)}).records, kKeys).counts[0], 6);
  for (const std::string& record : {
           example(rest),                                 // lacks a feature with steps
           example(rest + image + image),                 // twice
           example(rest + image + ints_entry("id", {})),  // twice, of the other features
           example(rest + bytes_entry("image", {"one"})),
           example(rest + entry("image", bytes + bytes)),
           example(rest + entry("image", bytes + varint_field(9, 1))),
           example(rest + entry("image", feature(Kind::bytes, varint_field(1, 1)))),
           example(rest + ints_entry("image", {1, 2})),
           example(rest +
                   delimited(1, delimited(1, "image") + delimited(2, bytes) + delimited(2, bytes))),
           example(ints_entry("id", {7}) + image + floats_entry("vector", {1, 2, 3})),
           example(ints_entry("id", {7}) + image +
                   entry("vector", feature(Kind::floats, unpacked_floats({1, 2, 3, 4})))),
           example(usual(varint_field(3, 1))),
           example(usual()) + "\xff",
       }) {
    const StepPieces found = locate_pieces(apart({record, example(usual())}).records, kKeys);
    CHECK_EQ_IN(found.counts, (std::vector<std::int64_t>{0, 6}), record);
    CHECK_EQ_IN(found.pieces.size(), 6U, record);
  }
}

void test_cuts() {
  const std::string record = example(usual());
  for (std::size_t size = 0; size < record.size(); ++size) {
    CHECK_EQ_IN(locate_pieces(apart({record.substr(0, size)}).records, kKeys).counts[0], 0, size);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_pieces_of_an_example();
  test_pieces_of_a_sequence();
  test_unusual_records();
  test_cuts();
  return finish();
}
