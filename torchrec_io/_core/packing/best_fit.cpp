#include "packing/best_fit.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tio {

BestFit::BestFit(std::size_t length)
    : length_(length),
      size_counts_(length + 1, 0),
      sizes_(length + 1),
      rooms_(length + 1, 0),
      room_set_(length + 1) {}

void BestFit::note_size(std::size_t size, std::int64_t count) {
  if (count == 0) return;
  if (size_counts_[size] == 0) sizes_.insert(length_ - size);
  size_counts_[size] += count;
}

void BestFit::add_room(std::size_t room, std::int64_t rows) {
  if (room == 0 || rows == 0) return;
  if (rooms_[room] == 0) room_set_.insert(room);
  rooms_[room] += rows;
}

void BestFit::clear_rooms() {
  for (std::size_t room = 0; (room = room_set_.next(room)) != LevelSet::kNone;) {
    rooms_[room] = 0;
    room_set_.erase(room);
  }
}

// Places `count` pieces of one size, of which rows may take several at a time: a row that took one
// has the least room of all that still have enough. Returns the number of new rows.
std::int64_t BestFit::place_equal(std::size_t size, std::int64_t count) {
  while (count > 0) {
    const std::size_t room = room_set_.next(size);
    const bool is_new = room == LevelSet::kNone;
    const std::size_t from = is_new ? length_ : room;
    const auto most = static_cast<std::int64_t>(from / size);  // pieces in a row
    const std::int64_t rows = is_new ? (count + most - 1) / most : rooms_[room];
    const std::int64_t filled = std::min(rows, count / most);
    count -= filled * most;
    const std::int64_t last = filled < rows ? count : 0;  // pieces in a row with room for more
    if (!is_new) {
      rooms_[room] -= filled + (last > 0 ? 1 : 0);
      if (rooms_[room] == 0) room_set_.erase(room);
    }
    add_room(from - static_cast<std::size_t>(most) * size, filled);
    if (last > 0) add_room(from - static_cast<std::size_t>(last) * size, 1);
    count -= last;
    if (is_new) return rows;
  }
  return 0;
}

std::int64_t BestFit::count(std::span<const std::int64_t> lengths) {
  std::int64_t rows = 0;
  const auto row = static_cast<std::int64_t>(length_);
  for (const std::int64_t length : lengths) {
    if (length > row) [[unlikely]] {
      rows += length / row;
      note_size(static_cast<std::size_t>(length % row), length % row != 0 ? 1 : 0);
    } else if (length > 0) {
      note_size(static_cast<std::size_t>(length), 1);
    }
  }
  for (std::size_t less = 0; (less = sizes_.next(less)) != LevelSet::kNone;) {
    const std::size_t size = length_ - less;
    rows += place_equal(size, size_counts_[size]);
    size_counts_[size] = 0;
    sizes_.erase(less);
  }
  clear_rooms();
  return rows;
}

std::vector<BestFit::Piece> BestFit::cut(std::span<const std::int64_t> lengths) const {
  std::vector<Piece> pieces;
  pieces.reserve(lengths.size());
  const auto row = static_cast<std::int64_t>(length_);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t begin = 0; begin < lengths[i]; begin += row) {
      const std::int64_t size = std::min(row, lengths[i] - begin);
      pieces.push_back({static_cast<std::int64_t>(i), begin, size, 0, lengths[i] > row, false});
    }
  }
  return pieces;
}

// Returns the indices of the pieces by size, the largest first and equal ones in their order.
std::vector<std::size_t> BestFit::by_size(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) note_size(static_cast<std::size_t>(piece.size), 1);
  std::int64_t begin = 0;
  for (std::size_t less = 0; (less = sizes_.next(less)) != LevelSet::kNone; sizes_.erase(less)) {
    std::int64_t& count = size_counts_[length_ - less];
    begin += std::exchange(count, begin);  // now the place of the first piece of this size
  }
  std::vector<std::size_t> order(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    order[static_cast<std::size_t>(size_counts_[static_cast<std::size_t>(pieces[i].size)]++)] = i;
  }
  for (const Piece& piece : pieces) size_counts_[static_cast<std::size_t>(piece.size)] = 0;
  return order;
}

// Gives each piece its row, by the order in which rows are opened. Returns the number of rows.
std::int64_t BestFit::assign_rows(std::span<Piece> pieces) {
  // Rows of equal room are a stack: rooms_ has the number of the topmost row plus 1, `below` that
  // of the row below each.
  std::vector<std::int64_t> below;
  std::vector<Piece*> leaders;
  for (const std::size_t index : by_size(pieces)) {
    Piece& piece = pieces[index];
    const auto size = static_cast<std::size_t>(piece.size);
    std::size_t room = room_set_.next(size);
    std::int64_t row = 0;
    if (room == LevelSet::kNone) {
      row = static_cast<std::int64_t>(below.size());
      below.push_back(0);
      leaders.push_back(&piece);
      room = length_;
    } else {
      row = rooms_[room] - 1;
      rooms_[room] = below[static_cast<std::size_t>(row)];
      if (rooms_[room] == 0) room_set_.erase(room);
    }
    piece.row = row;
    Piece*& leader = leaders[static_cast<std::size_t>(row)];
    if (piece.is_cut && !leader->is_cut) leader = &piece;
    room -= size;
    if (room == 0) continue;
    if (rooms_[room] == 0) room_set_.insert(room);
    below[static_cast<std::size_t>(row)] = rooms_[room];
    rooms_[room] = row + 1;
  }
  for (Piece* leader : leaders) leader->leads = true;
  clear_rooms();
  return static_cast<std::int64_t>(below.size());
}

RowPlan BestFit::pack(std::span<const std::int64_t> lengths) {
  std::vector<Piece> pieces = cut(lengths);
  const auto rows = static_cast<std::size_t>(assign_rows(pieces));
  // Number the rows by their leaders, and count the pieces of each.
  std::vector<std::int64_t> numbers(rows);
  std::int64_t next = 0;
  for (const Piece& piece : pieces) {
    if (piece.leads) numbers[static_cast<std::size_t>(piece.row)] = next++;
  }
  std::vector<std::int64_t> ends(rows + 1, 0);
  for (Piece& piece : pieces) {
    piece.row = numbers[static_cast<std::size_t>(piece.row)];
    ++ends[static_cast<std::size_t>(piece.row) + 1];
  }
  for (std::size_t i = 0; i < rows; ++i) ends[i + 1] += ends[i];
  RowPlan packed;
  packed.row_begins = ends;
  packed.documents.resize(pieces.size());
  packed.begins.resize(pieces.size());
  packed.sizes.resize(pieces.size());
  for (const Piece& piece : pieces) {
    const auto at = static_cast<std::size_t>(ends[static_cast<std::size_t>(piece.row)]++);
    packed.documents[at] = piece.document;
    packed.begins[at] = piece.begin;
    packed.sizes[at] = piece.size;
  }
  return packed;
}

RowPlan BestFit::repack(const RowPlan& plan, std::size_t kept) {
  // The rows of the pieces of a long document follow one another, but its last piece may come in
  // an earlier row. So the other pieces, of which the first in its row begins first, are one range.
  std::vector<std::int64_t> begins(plan.numbers.size(), 0);
  std::vector<std::int64_t> sizes(plan.numbers.size(), 0);
  const auto first = static_cast<std::size_t>(plan.row_begins[kept]);
  for (std::size_t i = first; i < plan.documents.size(); ++i) {
    const auto document = static_cast<std::size_t>(plan.documents[i]);
    if (sizes[document] == 0 || plan.begins[i] < begins[document]) {
      begins[document] = plan.begins[i];
    }
    sizes[document] += plan.sizes[i];
  }
  RowPlan rest = pack(sizes);
  for (std::size_t i = 0; i < rest.documents.size(); ++i) {
    rest.begins[i] += begins[static_cast<std::size_t>(rest.documents[i])];
  }
  rest.numbers = plan.numbers;
  rest.lengths = plan.lengths;
  std::vector<std::int64_t> rows(kept);
  std::iota(rows.begin(), rows.end(), 0);
  RowPlan packed = *plan.take(rows);
  packed.append(rest);
  return packed;
}

}  // namespace tio
