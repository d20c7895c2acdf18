// Packing of documents into rows of a fixed length by best fit, longest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packing/level_set.h"
#include "packing/row_plan.h"

namespace tio {

// Packs one window of documents after another.
//
// A document longer than a row is cut into pieces that fill a row each, and a rest. The pieces are
// taken by size, the largest first and equal ones in their order. Each goes to the row with the
// least room that is enough for it; among equal rows, to the one that was changed last. If there is
// none it opens a row.
//
// The leader of a row is its first piece of a document that was cut, or else its first piece at
// all. The rows come in the order of their leaders, and the pieces in a row in that of their
// documents. So the rows of a long document are close together, and it is read once for most of
// them.
class BestFit {
 public:
  // `length` must be at least 1.
  explicit BestFit(std::size_t length);

  // Returns the number of rows for documents of these lengths. Those of length 0 are left out.
  std::int64_t count(std::span<const std::int64_t> lengths);

  // Returns the rows for documents of these lengths, without `numbers` and `lengths` of documents.
  // Those of length 0 are left out.
  RowPlan pack(std::span<const std::int64_t> lengths);

  // Returns the first `kept` rows of a plan, and then new rows with the tokens of its other rows.
  // The plan comes from pack(), or from this function with at most as many rows kept: so the tokens
  // of the other rows are one range of each document. `kept` is at most the number of rows.
  RowPlan repack(const RowPlan& plan, std::size_t kept);

 private:
  struct Piece {
    std::int64_t document;
    std::int64_t begin;
    std::int64_t size;
    std::int64_t row;
    bool is_cut;
    bool leads;
  };

  void note_size(std::size_t size, std::int64_t count);
  std::int64_t place_equal(std::size_t size, std::int64_t count);
  void add_room(std::size_t room, std::int64_t rows);
  void clear_rooms();
  std::vector<Piece> cut(std::span<const std::int64_t> lengths) const;
  std::vector<std::size_t> by_size(std::span<const Piece> pieces);
  std::int64_t assign_rows(std::span<Piece> pieces);

  std::size_t length_;
  // By size of a piece: how many there are. Sizes are in the set as length - size, so that the
  // largest comes first.
  std::vector<std::int64_t> size_counts_;
  LevelSet sizes_;
  // By room of a row: how many rows there are, or the row that was changed last.
  std::vector<std::int64_t> rooms_;
  LevelSet room_set_;
};

}  // namespace tio
