// Rows and the pieces of documents in each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tio {

using Int64s = std::vector<std::int64_t>;

// Row i has the pieces from row_begins[i] to row_begins[i + 1]. A piece is a part of a document, or
// all of it.
struct RowPlan {
  Int64s numbers;           // record number of each document
  Int64s lengths;           // number of tokens of each document, without a separator
  Int64s row_begins{0};     // first piece of each row, then the number of pieces
  Int64s documents;         // index in `numbers` of the document of each piece
  Int64s begins;            // first token of each piece in its document
  Int64s sizes;             // number of tokens of each piece, with the separator
  std::int64_t length = 0;  // of a row, if the planner has noted it

  std::size_t rows() const { return row_begins.size() - 1; }

  // Returns some rows, with their documents in the order of their first pieces; nothing if a row
  // does not exist.
  std::optional<RowPlan> take(std::span<const std::int64_t> rows) const;

  // Returns the record number of the first document of each row.
  Int64s first_numbers() const;

  // Adds the rows of another plan, of the same length, with `base` added to its record numbers.
  void append(const RowPlan& other, std::int64_t base = 0);

  // Adds a piece to the last row. Rows are ended by end_row().
  void add_piece(std::int64_t document, std::int64_t begin, std::int64_t size);
  void end_row() { row_begins.push_back(static_cast<std::int64_t>(documents.size())); }
};

// The documents of a sequence of tokens: document i begins at token starts[i], and ends where the
// next one begins. The starts ascend.
struct JoinedDocuments {
  std::span<const std::int64_t> numbers;
  std::span<const std::int64_t> lengths;
  std::span<const std::int64_t> starts;
};

// Cuts the tokens begin..end-1, which are those of some documents, into rows of `length` tokens;
// the last may be shorter. Returns nothing if `begin` is before the first document, the starts do
// not ascend, or there are not as many as documents.
std::optional<RowPlan> cut_rows(const JoinedDocuments& joined, std::int64_t begin, std::int64_t end,
                                std::int64_t length);

}  // namespace tio
