#include "packing/row_writer.h"

#include <algorithm>

#include "packing/line_writer.h"
#include "packing/part_reader.h"
#include "records/record_number.h"
#include "timing/steps.h"

namespace tio {
namespace {

// Whether tokens of a dtype can be labels: integers that fit int64.
bool has_labels(Dtype dtype) {
  return stored_kind(dtype) == Kind::ints && dtype != Dtype::uint64 && dtype != Dtype::boolean;
}

template <class T>
T item_of(const std::vector<std::byte>& bytes) {
  return load<T>(bytes, 0);
}

}  // namespace

std::optional<RowWriter> RowWriter::open(const RowPlan& plan, std::size_t length,
                                         std::size_t records,
                                         std::optional<std::span<const std::int64_t>> sources) {
  const std::size_t documents = plan.numbers.size();
  if (length == 0 || (sources ? sources->size() : records) != documents) return std::nullopt;
  RowWriter writer(length);
  writer.records_ = records;
  writer.pieces_.reserve(plan.documents.size());
  std::vector<std::size_t> latest(documents, kNone);  // piece of each document
  for (std::size_t row = 0; row < plan.rows(); ++row) {
    std::size_t used = 0;
    const auto end = static_cast<std::size_t>(plan.row_begins[row + 1]);
    for (auto i = static_cast<std::size_t>(plan.row_begins[row]); i < end; ++i) {
      const auto document = static_cast<std::size_t>(plan.documents[i]);
      const std::int64_t from =
          sources ? (*sources)[document] : static_cast<std::int64_t>(document);
      if (from < 0) continue;
      const std::int64_t whole = plan.lengths[document];
      const std::int64_t begin = plan.begins[i];
      const std::int64_t size = plan.sizes[i];
      const bool is_valid = static_cast<std::uint64_t>(from) < records && whole >= 1 &&
                            begin >= 0 && begin <= whole && size >= 1 &&
                            size - 1 <= whole - begin &&
                            static_cast<std::uint64_t>(size) <= length - used;
      if (!is_valid) return std::nullopt;
      writer.pieces_.push_back({.target = row * length + used,
                                .size = static_cast<std::size_t>(size),
                                .copied = static_cast<std::size_t>(std::min(size, whole - begin)),
                                .begin = static_cast<std::size_t>(begin),
                                .whole = static_cast<std::size_t>(whole),
                                .record = static_cast<std::size_t>(from)});
      Piece& piece = writer.pieces_.back();
      const std::size_t before = std::exchange(latest[document], writer.pieces_.size() - 1);
      if (before != kNone && writer.pieces_[before].last_value() <= piece.first_value()) {
        writer.pieces_[before].next = writer.pieces_.size() - 1;
        piece.is_first = false;
      }
      writer.numbers.push_back(own_number(plan.numbers[document]));
      writer.segment_lengths.push_back(static_cast<std::int32_t>(size));
      used += static_cast<std::size_t>(size);
    }
    writer.end_row(used);
  }
  return writer;
}

void RowWriter::end_row(std::size_t used) {
  splits.push_back(static_cast<std::int64_t>(pieces_.size()));
  if (used < length_) segment_lengths.push_back(static_cast<std::int32_t>(length_ - used));
  segment_splits.push_back(static_cast<std::int64_t>(segment_lengths.size()));
}

bool RowWriter::fits(const LocatedBatch& documents, const RowFormat& format,
                     MutableBytes arena) const {
  if (documents.has_failed() || documents.records()->size() != records_) return false;
  if (reinterpret_cast<std::uintptr_t>(arena.data()) % 8 != 0 || format.columns.empty()) {
    return false;
  }
  const auto& specs = documents.parser().specs();
  for (const PackedColumn& column : format.columns) {
    if (column.feature >= specs.size()) return false;
    const FeatureSpec& spec = specs[column.feature];
    const std::size_t item = element_bytes(spec.dtype);
    const bool is_valid = spec.is_list_of_numbers() && column.padding.size() == item &&
                          (!column.separator || column.separator->size() == item) &&
                          is_array_inside(column.at, total(), item, arena.size());
    if (!is_valid) return false;
  }
  if (format.labels && (!has_labels(specs[format.columns.front().feature].dtype) ||
                        !is_array_inside(format.labels_at, total(), 8, arena.size()))) {
    return false;
  }
  return is_array_inside(format.segments_at, total(), 4, arena.size()) &&
         is_array_inside(format.positions_at, total(), 4, arena.size());
}

// Writes all columns of a row before the next row, so that the row stays in the fastest cache. A
// document whose pieces are in several rows is decoded when its first piece comes.
class RowWriter::Writing {
 public:
  Writing(const RowWriter& rows, const LocatedBatch& documents, const RowFormat& format,
          MutableBytes arena)
      : rows_(rows),
        documents_(documents),
        format_(format),
        arena_(arena),
        labels_(items<std::int64_t>(format.labels_at)),
        segments_(items<std::int32_t>(format.segments_at)),
        positions_(items<std::int32_t>(format.positions_at)) {
    if (format.labels == Labels::next) after_.resize(rows.pieces_.size());
  }

  bool write_row(std::size_t row) {
    first_ = static_cast<std::size_t>(rows_.splits[row]);
    end_ = static_cast<std::size_t>(rows_.splits[row + 1]);
    row_end_ = (row + 1) * rows_.length_;
    used_end_ = first_ == end_ ? row * rows_.length_
                               : rows_.pieces_[end_ - 1].target + rows_.pieces_[end_ - 1].size;
    bool is_good = true;
    for (const PackedColumn& column : format_.columns) {
      visit_element(spec_of(column).dtype, [&]<class T>(T) {
        is_good = is_good && write_values<T>(column);
        if (is_good && &column == &format_.columns.front()) write_labels<T>();
      });
    }
    if (is_good) write_marks();
    return is_good;
  }

  void finish() {
    labels_.finish();
    segments_.finish();
    positions_.finish();
  }

 private:
  template <class T>
  T* items(std::size_t at) const {
    return reinterpret_cast<T*>(arena_.data() + at);
  }

  const FeatureSpec& spec_of(const PackedColumn& column) const {
    return documents_.parser().specs()[column.feature];
  }

  template <class T>
  bool write_values(const PackedColumn& column) {
    T* const out = items<T>(column.at);
    for (std::size_t i = first_; i < end_; ++i) {
      const Piece& piece = rows_.pieces_[i];
      if (piece.is_first && !read_chain<T>(column, i)) return false;
      if (piece.copied == piece.size) continue;
      T* const last = out + piece.target + piece.copied;
      if (column.separator) {
        *last = item_of<T>(*column.separator);
      } else if (piece.copied != 0) {
        *last = last[-1];
      }
    }
    std::fill(out + used_end_, out + row_end_, item_of<T>(column.padding));
    return true;
  }

  // Reads the pieces of a document from one on.
  template <class T>
  bool read_chain(const PackedColumn& column, std::size_t first) {
    const Piece& begin = rows_.pieces_[first];
    T* const out = items<T>(column.at);
    const auto read = [&](std::span<DocumentPart<T>> parts) {
      const Location& at =
          documents_.located().at(begin.record, documents_.parser().slot(column.feature));
      return read_parts<T>(spec_of(column), (*documents_.records())[begin.record], at, begin.whole,
                           parts) == WriteResult::good;
    };
    const auto part_of = [&](const Piece& piece) {
      return DocumentPart<T>{piece.first_value(), piece.last_value(), out + piece.target};
    };
    if (begin.next == kNone) {
      DocumentPart<T> part = part_of(begin);
      return read({&part, 1}) && note_after(column, first, part.after);
    }
    std::vector<DocumentPart<T>> parts;
    for (std::size_t i = first; i != kNone; i = rows_.pieces_[i].next) {
      parts.push_back(part_of(rows_.pieces_[i]));
    }
    if (!read(parts)) return false;
    std::size_t number = 0;
    for (std::size_t i = first; i != kNone; i = rows_.pieces_[i].next) {
      const bool is_adjacent =
          number + 1 < parts.size() && parts[number + 1].begin == parts[number].end;
      note_after(column, i, is_adjacent ? *parts[number + 1].out : parts[number].after);
      ++number;
    }
    return true;
  }

  // Keeps the token after a piece, if it is a label. Always returns true.
  template <class T>
  bool note_after(const PackedColumn& column, std::size_t piece, T token) {
    if constexpr (std::integral<T>) {
      if (!after_.empty() && &column == &format_.columns.front()) {
        after_[piece] = static_cast<std::int64_t>(token);
      }
    }
    return true;
  }

  template <class T>
  void write_labels() {
    if constexpr (std::integral<T>) {
      if (!format_.labels) return;
      const T* const tokens = items<T>(format_.columns.front().at);
      const bool is_next = *format_.labels == Labels::next;
      for (std::size_t i = first_; i < end_; ++i) {
        const Piece& piece = rows_.pieces_[i];
        const T* const later = tokens + piece.target + 1;
        if (!is_next) labels_.put(kNoLabel);
        labels_.put_all(later, later + (piece.size - 1));
        if (is_next) labels_.put(label_after(piece, i));
      }
      labels_.put_ramp(row_end_ - used_end_, kNoLabel);
    }
  }

  // Returns the label of the last token of a piece.
  std::int64_t label_after(const Piece& piece, std::size_t number) const {
    if (piece.copied != piece.size) return kNoLabel;
    if (piece.last_value() != piece.whole) return after_[number];
    return format_.separator.value_or(kNoLabel);
  }

  void write_marks() {
    for (std::size_t i = first_; i < end_; ++i) {
      const Piece& piece = rows_.pieces_[i];
      const auto segment = static_cast<std::int32_t>(i - first_ + 1);
      const auto begin = static_cast<std::int32_t>(format_.continues ? piece.begin : 0);
      segments_.put_ramp(piece.size, segment);
      positions_.put_ramp(piece.size, begin, 1);
    }
    segments_.put_ramp(row_end_ - used_end_, 0);
    positions_.put_ramp(row_end_ - used_end_, 0);
  }

  const RowWriter& rows_;
  const LocatedBatch& documents_;
  const RowFormat& format_;
  MutableBytes arena_;
  LineWriter<std::int64_t> labels_;
  LineWriter<std::int32_t> segments_;
  LineWriter<std::int32_t> positions_;
  Int64s after_;  // token after each piece
  // Of the row that is written: its pieces, and tokens.
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  std::size_t used_end_ = 0;
  std::size_t row_end_ = 0;
};

bool RowWriter::write(const LocatedBatch& documents, const RowFormat& format,
                      MutableBytes arena) const {
  const StepScope step(Counter::parsing);
  Writing writing(*this, documents, format, arena);
  bool is_good = true;
  for (std::size_t row = 0; is_good && row + 1 < splits.size(); ++row) {
    is_good = writing.write_row(row);
  }
  writing.finish();
  return is_good;
}

}  // namespace tio
