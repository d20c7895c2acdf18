// Writing of packed rows: values of documents, and what says which token belongs to which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "example/located_batch.h"
#include "packing/row_plan.h"
#include "wire/bytes.h"

namespace tio {

// Label of a token that has none.
inline constexpr std::int64_t kNoLabel = -100;

enum class Labels { same, next };

// A feature with a value for each token.
struct PackedColumn {
  std::size_t feature = 0;         // position in the specs of the parser
  std::size_t at = 0;              // offset of the rows in the arena
  std::vector<std::byte> padding;  // one value
  // The value after a document, if there is a separator; none repeats the last value.
  std::optional<std::vector<std::byte>> separator;
};

// The columns of rows that have a value for each token.
struct RowFormat {
  std::vector<PackedColumn> columns;  // the first is that of the tokens
  std::optional<Labels> labels;
  std::optional<std::int64_t> separator;  // the label before a separator
  bool continues = false;                 // whether positions are those in the document
  // Offsets in the arena of int64 labels, int32 segments and int32 positions.
  std::size_t labels_at = 0;
  std::size_t segments_at = 0;
  std::size_t positions_at = 0;
};

// Writes rows of a plan from the records of its documents. The pieces of lost documents are left
// out, and those after them move up, so that padding is at the end of a row.
class RowWriter {
 public:
  // `sources` has the record of each document in its batch of `records`, -1 if it is lost; without
  // it, they are the same. Returns nothing unless the plan fits rows of `length` and the batch.
  static std::optional<RowWriter> open(const RowPlan& plan, std::size_t length, std::size_t records,
                                       std::optional<std::span<const std::int64_t>> sources);

  // Whether rows of the format can be made of a batch, and lie inside of an arena.
  bool fits(const LocatedBatch& documents, const RowFormat& format, MutableBytes arena) const;

  // Decodes the documents into rows that fit. Tells which document of its row each token belongs
  // to, from 1 on, and its position in the piece, or in the document; both are 0 for padding. The
  // label of a token is the token itself, or the next one of its document: the first token of a
  // piece has no label in the one case, the last one of a document in the other.
  //
  // Returns false if a document is invalid, or has not as many values as planned. The rows are
  // undefined then.
  bool write(const LocatedBatch& documents, const RowFormat& format, MutableBytes arena) const;

  Int64s splits{0};          // first piece of each row, then the number of pieces
  Int64s numbers;            // record number of each piece
  Int64s segment_splits{0};  // as `splits`, with the padding of a row as a piece
  std::vector<std::int32_t> segment_lengths;

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  struct Piece {
    std::size_t target;  // first token in the rows
    std::size_t size;
    std::size_t copied;  // number of its tokens that are the document's, not a separator
    std::size_t begin;   // first token of the piece in the document
    std::size_t whole;   // number of tokens of the document
    std::size_t record;  // of the document in its batch
    // The next piece of the document. The pieces of a chain ascend, and are read together.
    std::size_t next = kNone;
    bool is_first = true;  // of its chain

    // The values that are read: a piece that is only a separator needs the value before it.
    std::size_t first_value() const { return copied != 0 ? begin : whole - 1; }
    std::size_t last_value() const { return copied != 0 ? begin + copied : whole; }
  };
  class Writing;

  explicit RowWriter(std::size_t length) : length_(length) {}
  std::size_t total() const { return (splits.size() - 1) * length_; }
  void end_row(std::size_t used);

  std::size_t length_;
  std::size_t records_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tio
