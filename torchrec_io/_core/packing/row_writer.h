// Writing of packed rows: values of documents, and what says which token belongs to which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "packing/row_plan.h"
#include "wire/bytes.h"

namespace tio {

// Label of a token that has none.
inline constexpr std::int64_t kNoLabel = -100;

enum class Labels { same, next };

// Writes rows of a plan from the values of its documents. The pieces of lost documents are left
// out, and those after them move up, so that padding is at the end of a row.
class RowWriter {
 public:
  // `starts` has the first value of each source row. `sources` has the source row of each document,
  // -1 if it is lost; without it, they are the same. Returns nothing unless the plan fits rows of
  // `length` and the starts.
  static std::optional<RowWriter> open(const RowPlan& plan, std::size_t length,
                                       std::span<const std::int64_t> starts,
                                       std::optional<std::span<const std::int64_t>> sources);

  // Number of tokens of all rows, and number of values that the source must have.
  std::size_t total() const { return (splits.size() - 1) * length_; }
  std::size_t needed() const { return needed_; }

  // Copies items of `padding.size()` bytes each to `total()` items. A separator is written as
  // `separator`, or if there is none, as the last item of its document.
  void write_values(Bytes source, Bytes padding, std::optional<Bytes> separator,
                    MutableBytes out) const;

  // Writes which document of its row each token belongs to, from 1 on, and its position: in the
  // document if `continues`, else in the piece. Both are 0 for padding.
  void write_marks(bool continues, std::span<std::int32_t> segments,
                   std::span<std::int32_t> positions) const;

  // Writes the label of each token: the token itself, or the next one of its document. The first
  // token of a piece has no label in the one case, the last one of a document in the other. T is an
  // integer.
  template <class T>
  void write_labels(Labels labels, std::span<const T> source, std::optional<std::int64_t> separator,
                    std::span<std::int64_t> out) const;

  Int64s splits{0};          // first piece of each row, then the number of pieces
  Int64s numbers;            // record number of each piece
  Int64s rows;               // source row of each piece
  Int64s segment_splits{0};  // as `splits`, with the padding of a row as a piece
  std::vector<std::int32_t> segment_lengths;

 private:
  struct Piece {
    std::size_t target;  // first token in the rows
    std::size_t source;  // first token of the piece in the source
    std::size_t size;
    std::size_t copied;  // number of its tokens that are the document's, not a separator
    std::size_t begin;   // first token of the piece in the document
    std::size_t left;    // number of tokens of the document after the piece
  };

  explicit RowWriter(std::size_t length) : length_(length) {}
  void end_row(std::size_t used);

  std::size_t length_;
  std::size_t needed_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tio
