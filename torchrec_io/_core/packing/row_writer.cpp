#include "packing/row_writer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tio {
namespace {

// A piece with its numbers as sizes.
struct Piece {
  std::size_t target;
  std::size_t source;  // first token of the piece
  std::size_t size;
  std::size_t copied;  // number of its tokens that are the document's, not a separator
  std::size_t begin;
  std::size_t left;  // number of tokens of the document after the piece
};

Piece piece_at(const Placement& placement, std::size_t i) {
  const std::int64_t in_document = placement.lengths[i] - placement.begins[i];
  const std::int64_t copied = std::min(placement.sizes[i], in_document);
  return {static_cast<std::size_t>(placement.targets[i]),
          static_cast<std::size_t>(placement.sources[i] + placement.begins[i]),
          static_cast<std::size_t>(placement.sizes[i]),
          static_cast<std::size_t>(copied),
          static_cast<std::size_t>(placement.begins[i]),
          static_cast<std::size_t>(in_document - copied)};
}

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

bool Placement::is_valid(std::size_t source, std::size_t total) const {
  const std::size_t count = targets.size();
  if (sources.size() != count || lengths.size() != count || begins.size() != count ||
      sizes.size() != count) {
    return false;
  }
  std::int64_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_sound = lengths[i] >= 1 && sizes[i] >= 1 && begins[i] >= 0 &&
                          is_inside(sources[i], lengths[i], source) && targets[i] >= end &&
                          is_inside(targets[i], sizes[i], total) && begins[i] <= lengths[i] &&
                          sizes[i] <= lengths[i] - begins[i] + 1;
    if (!is_sound) return false;
    end = targets[i] + sizes[i];
  }
  return true;
}

void write_values(const Placement& placement, Bytes source, Bytes padding,
                  std::optional<Bytes> separator, MutableBytes out) {
  const std::size_t item = padding.size();
  std::size_t end = 0;
  for (std::size_t i = 0; i < placement.targets.size(); ++i) {
    const Piece piece = piece_at(placement, i);
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

void write_marks(const Placement& placement, std::size_t length, bool continues,
                 std::span<std::int32_t> segments, std::span<std::int64_t> positions) {
  std::size_t end = 0;
  std::size_t row = SIZE_MAX;
  std::int32_t segment = 0;
  const auto pad_to = [&](std::size_t target) {
    std::fill(segments.begin() + end, segments.begin() + target, 0);
    std::fill(positions.begin() + end, positions.begin() + target, 0);
  };
  for (std::size_t i = 0; i < placement.targets.size(); ++i) {
    const Piece piece = piece_at(placement, i);
    pad_to(piece.target);
    segment = piece.target / length == row ? segment + 1 : 1;
    row = piece.target / length;
    end = piece.target + piece.size;
    std::fill(segments.begin() + piece.target, segments.begin() + end, segment);
    std::iota(positions.begin() + piece.target, positions.begin() + end,
              static_cast<std::int64_t>(continues ? piece.begin : 0));
  }
  pad_to(segments.size());
}

template <class T>
void write_labels(const Placement& placement, Labels labels, std::span<const T> source,
                  std::optional<std::int64_t> separator, std::span<std::int64_t> out) {
  std::fill(out.begin(), out.end(), kNoLabel);
  for (std::size_t i = 0; i < placement.targets.size(); ++i) {
    const Piece piece = piece_at(placement, i);
    // The token at a place of the piece, or the one after it.
    const auto token_at = [&](std::size_t at) {
      const bool is_own = at < piece.copied + piece.left;
      return is_own || !separator ? static_cast<std::int64_t>(source[piece.source + at - !is_own])
                                  : *separator;
    };
    const std::size_t shift = labels == Labels::next ? 1 : 0;
    // Nothing follows the end of a document, which is its separator if there is one.
    const bool ends = piece.left == 0 && (!separator || piece.copied != piece.size);
    const std::size_t first = labels == Labels::same ? 1 : 0;
    const std::size_t last = piece.size - (shift == 1 && ends ? 1 : 0);
    for (std::size_t at = first; at < last; ++at) out[piece.target + at] = token_at(at + shift);
  }
}

template void write_labels(const Placement&, Labels, std::span<const std::int8_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::uint8_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::int16_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::uint16_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::int32_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::uint32_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);
template void write_labels(const Placement&, Labels, std::span<const std::int64_t>,
                           std::optional<std::int64_t>, std::span<std::int64_t>);

}  // namespace tio
