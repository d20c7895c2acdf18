#include "packing/row_writer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tio {
namespace {

template <std::size_t kSize>
void fill_items(std::byte* to, std::size_t count, const std::byte* item) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * kSize, item, kSize);
}

void fill(std::byte* to, std::size_t count, Bytes item) {
  switch (item.size()) {
    case 1: return fill_items<1>(to, count, item.data());
    case 2: return fill_items<2>(to, count, item.data());
    case 4: return fill_items<4>(to, count, item.data());
    case 8: return fill_items<8>(to, count, item.data());
    default:
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to + i * item.size(), item.data(), item.size());
      }
  }
}

}  // namespace

std::optional<RowWriter> RowWriter::open(const RowPlan& plan, std::size_t length,
                                         std::span<const std::int64_t> starts,
                                         std::optional<std::span<const std::int64_t>> sources) {
  if (length == 0 || (sources && sources->size() != plan.numbers.size())) return std::nullopt;
  RowWriter writer(length);
  writer.pieces_.reserve(plan.documents.size());
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
      const bool is_sound = static_cast<std::uint64_t>(from) < starts.size() && whole >= 1 &&
                            begin >= 0 && begin <= whole && size >= 1 &&
                            size - 1 <= whole - begin &&
                            static_cast<std::uint64_t>(size) <= length - used;
      if (!is_sound) return std::nullopt;
      const std::int64_t start = starts[static_cast<std::size_t>(from)];
      if (!is_inside(start, whole, INT64_MAX)) return std::nullopt;
      const std::int64_t copied = std::min(size, whole - begin);
      writer.needed_ = std::max(writer.needed_, static_cast<std::size_t>(start + whole));
      writer.pieces_.push_back({row * length + used, static_cast<std::size_t>(start + begin),
                                static_cast<std::size_t>(size), static_cast<std::size_t>(copied),
                                static_cast<std::size_t>(begin),
                                static_cast<std::size_t>(whole - begin - copied)});
      writer.numbers.push_back(plan.numbers[document]);
      writer.rows.push_back(from);
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

void RowWriter::write_values(Bytes source, Bytes padding, std::optional<Bytes> separator,
                             MutableBytes out) const {
  const std::size_t item = padding.size();
  std::size_t end = 0;
  for (const Piece& piece : pieces_) {
    fill(out.data() + end * item, piece.target - end, padding);
    std::byte* const to = out.data() + piece.target * item;
    if (piece.copied != 0) {
      std::memcpy(to, source.data() + piece.source * item, piece.copied * item);
    }
    if (piece.copied != piece.size) {
      const Bytes last = source.subspan((piece.source + piece.copied - 1) * item, item);
      std::memcpy(to + piece.copied * item, separator.value_or(last).data(), item);
    }
    end = piece.target + piece.size;
  }
  fill(out.data() + end * item, out.size() / item - end, padding);
}

void RowWriter::write_marks(bool continues, std::span<std::int32_t> segments,
                            std::span<std::int32_t> positions) const {
  std::size_t end = 0;
  std::size_t row = SIZE_MAX;
  std::int32_t segment = 0;
  const auto pad_to = [&](std::size_t target) {
    std::fill(segments.begin() + end, segments.begin() + target, 0);
    std::fill(positions.begin() + end, positions.begin() + target, 0);
  };
  for (const Piece& piece : pieces_) {
    pad_to(piece.target);
    segment = piece.target / length_ == row ? segment + 1 : 1;
    row = piece.target / length_;
    end = piece.target + piece.size;
    std::fill(segments.begin() + piece.target, segments.begin() + end, segment);
    std::iota(positions.begin() + piece.target, positions.begin() + end,
              static_cast<std::int32_t>(continues ? piece.begin : 0));
  }
  pad_to(segments.size());
}

template <class T>
void RowWriter::write_labels(Labels labels, std::span<const T> source,
                             std::optional<std::int64_t> separator,
                             std::span<std::int64_t> out) const {
  const std::size_t shift = labels == Labels::next ? 1 : 0;
  const std::size_t first = 1 - shift;
  std::size_t end = 0;
  for (const Piece& piece : pieces_) {
    // Nothing follows the end of a document, which is its separator if there is one.
    const bool ends = piece.left == 0 && (!separator || piece.copied != piece.size);
    const std::size_t last = piece.size - (shift == 1 && ends ? 1 : 0);
    // The labels that are tokens of the document; after them comes at most a separator.
    const std::size_t own = std::max(
        first,
        std::min(last, piece.copied + piece.left - std::min(shift, piece.copied + piece.left)));
    std::fill(out.begin() + end, out.begin() + piece.target + first, kNoLabel);
    const T* const tokens = source.data() + piece.source + shift;
    std::copy(tokens + first, tokens + own, out.begin() + piece.target + first);
    end = piece.target + own;
    if (own < last && separator) {
      std::fill(out.begin() + end, out.begin() + piece.target + last, *separator);
      end = piece.target + last;
    }
  }
  std::fill(out.begin() + end, out.end(), kNoLabel);
}

template void RowWriter::write_labels(Labels, std::span<const std::int8_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::uint8_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::int16_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::uint16_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::int32_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::uint32_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;
template void RowWriter::write_labels(Labels, std::span<const std::int64_t>,
                                      std::optional<std::int64_t>, std::span<std::int64_t>) const;

}  // namespace tio
