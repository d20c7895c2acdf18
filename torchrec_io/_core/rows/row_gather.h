// Copies rows of columns from several arenas into a new one.
//
// A column is a chain of arrays, outermost first: any number of arrays of offsets, or one of sparse
// indices, each of which gives the rows of the next array that belong to its own rows; and an array
// of items at the end. Bytes values are offsets, and items of one byte. Rows may be padded to a
// length: those of an array, or those that offsets give.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "wire/bytes.h"

namespace tio {

// The source of rows of padding, which no arena has.
constexpr std::int64_t kPadding = -1;

// Rows beside each other in the arrays of one source, or that many rows of padding.
struct RowSpan {
  std::int64_t source = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
using RowSpans = std::vector<RowSpan>;

enum class ArrayKind : std::int64_t {
  items,    // [copies, rows, width]; the last array of a column
  offsets,  // [rows * width + 1]: where the values of each row begin in the next array
  indices,  // int64 [n, width], ascending by the first number, which is the row of the next array
  padded,  // offsets [rows + 1]; in the copy, each row has `width` rows of the next array, and this
           // array is int64 [rows]: how many of them are no padding
};

// An array of all sources and of the copy. Rows of padding have no entries in indices.
struct ArrayForm {
  ArrayKind kind = ArrayKind::items;
  std::int64_t item_bytes = 1;  // 1 to 16 for items, 4 or 8 for offsets and padded, 8 for indices
  std::int64_t selection = 0;   // the selection of rows that a column begins with
  std::int64_t width = 1;       // items, offsets or numbers in each row of the copy
  std::int64_t copies = 1;      // arrays of items that have the same rows
  // How many of these are copied from each row at most. The others are padding.
  std::int64_t kept = std::numeric_limits<std::int64_t>::max();
  // Padding: of items, the first bytes of an item; of offsets, the first row of a value in the next
  // array of the last source, and the number of its rows.
  std::int64_t fill = 0;
  std::int64_t fill_rows = 0;
};

// An array in the arena of a source.
struct ArrayPlace {
  std::int64_t at = 0;      // its first byte
  std::int64_t rows = 0;    // for indices, their number
  std::int64_t stride = 0;  // bytes from each of the arrays of items to the next one
  std::int64_t width = 1;   // items, offsets or numbers in each row
};

class RowGather {
 public:
  // Plans the copy of rows. Rows that offsets place outside of the next array are cut.
  //
  // Args:
  //   sources: The arenas. They are not kept.
  //   forms: The arrays of all columns.
  //   places: The arrays of each source: all of its places, then those of the next source.
  //   selections: Rows of the sources.
  //   alignment: Alignment of each array of the copy in bytes; 0 for that of its items.
  //
  // Throws:
  //   std::invalid_argument: If an array or a row lies outside of its source.
  //   std::overflow_error: If the copy needs larger offsets than its type has.
  RowGather(std::span<const Bytes> sources, std::vector<ArrayForm> forms,
            std::vector<ArrayPlace> places, std::vector<RowSpans> selections,
            std::int64_t alignment);

  // Three numbers for each array of the copy: its rows, its first byte, and its stride.
  std::vector<std::int64_t> arrays;
  // Size of the arena of the copy: at most 2^58, where it needs more.
  std::int64_t arena_bytes = 0;

  // Copies the rows.
  //
  // Args:
  //   sources: The arenas, of the same sizes.
  //   out: The arena of the copy.
  //
  // Throws:
  //   std::invalid_argument: If an arena has another size, or `out` is too small.
  void write(std::span<const Bytes> sources, MutableBytes out) const;

 private:
  // The rows of one array.
  struct Taken {
    std::int64_t spans = 0;  // position of its rows in spans_
    std::int64_t rows = 0;   // number of them; of indices, the number of indices
    // The end of each row in the next array; of offsets, after a 0; of padded rows, the length.
    std::vector<std::int64_t> ends;
  };

  const ArrayPlace& place(std::int64_t source, std::size_t array) const;
  RowSpans follow_offsets(std::span<const Bytes> sources, std::size_t array, const RowSpans& spans,
                          std::vector<std::int64_t>& ends) const;
  RowSpans follow_indices(std::span<const Bytes> sources, std::size_t array, const RowSpans& spans,
                          std::vector<std::int64_t>& ends) const;
  RowSpan rows_at(std::span<const Bytes> sources, std::int64_t source, std::size_t array,
                  std::int64_t index) const;
  RowSpans follow_padded(std::span<const Bytes> sources, std::size_t array, const RowSpans& spans,
                         std::vector<std::int64_t>& lengths) const;
  void lay_out(std::int64_t alignment);
  void write_items(std::span<const Bytes> sources, std::size_t array, MutableBytes out) const;
  void write_lengths(std::size_t array, MutableBytes out) const;
  void write_offsets(std::size_t array, MutableBytes out) const;
  void write_indices(std::span<const Bytes> sources, std::size_t array, MutableBytes out) const;

  std::vector<ArrayForm> forms_;
  std::vector<ArrayPlace> places_;
  std::vector<std::size_t> source_sizes_;
  std::vector<RowSpans> spans_;  // the selections, and the rows that arrays lead to
  std::vector<Taken> taken_;
};

}  // namespace tio
