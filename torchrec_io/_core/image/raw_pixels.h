// Images that are stored as their pixels: uint8 [H, W, 1 or 3].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image/part.h"
#include "image/pixels.h"
#include "image/view.h"
#include "wire/bytes.h"

namespace tio {

// Cuts out and resizes one image after another, like JpegDecoder. Not safe to use from two threads
// at the same time.
class RawPixels {
 public:
  // Takes an image, which must stay valid until decode() returns. Returns false with a reason if
  // its bytes are not those of its size.
  bool open(Bytes pixels, const ImageHeader& header, std::string& reason) {
    const bool has_pixels =
        header.height > 0 && header.width > 0 && (header.components == 1 || header.components == 3);
    const auto size = static_cast<std::int64_t>(pixels.size());
    if (!has_pixels || size % header.components != 0 ||
        size / header.components % header.width != 0 ||
        size / header.components / header.width != header.height) {
      reason = "its size is not that of its shape";
      return false;
    }
    pixels_ = reinterpret_cast<const std::uint8_t*>(pixels.data());
    header_ = header;
    return true;
  }

  bool decode(std::span<const ViewTarget> parts, std::string& reason) {
    next_row_ = 0;
    const auto fits = [this](const ViewTarget& part) {
      return part.view.fits(header_.height, header_.width);
    };
    if (!std::ranges::all_of(parts, fits)) {
      reason = "the part to decode is not in the image";
      return false;
    }
    return write_parts(*this, parts, reason);
  }

  // The functions of image/part.h.
  bool cut_columns(std::int64_t left, std::int64_t right, std::string&) {
    first_column_ = left;
    columns_ = right - left;
    return true;
  }
  void reserve_rows(std::int64_t count) {
    ring_size_ = count;
    ring_.resize(static_cast<std::size_t>(levels() == 1 ? 0 : count * columns_ * 4));
  }
  bool skip_rows(std::int64_t until, std::string&) {
    next_row_ = std::max(next_row_, until);
    return true;
  }
  bool read_rows(std::int64_t until, std::string&) {
    if (levels() == 1) return true;
    for (; next_row_ < until; ++next_row_) {
      expand_triples(stored(next_row_, first_column_), static_cast<std::size_t>(columns_),
                     ring_row(next_row_));
    }
    return true;
  }
  const std::uint8_t* at_column(std::int64_t row, std::int64_t column) {
    if (levels() == 1) return stored(row, column);
    return ring_row(row) + (column - first_column_) * 4;
  }
  int levels() const { return header_.components == 1 ? 1 : 4; }

 private:
  const std::uint8_t* stored(std::int64_t row, std::int64_t column) const {
    return pixels_ + (row * header_.width + column) * header_.components;
  }
  std::uint8_t* ring_row(std::int64_t row) {
    return &ring_[static_cast<std::size_t>(row % ring_size_ * columns_ * 4)];
  }

  const std::uint8_t* pixels_ = nullptr;
  ImageHeader header_;
  std::int64_t next_row_ = 0;
  std::int64_t first_column_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t ring_size_ = 1;
  std::vector<std::uint8_t> ring_;  // rows with four levels a pixel
};

}  // namespace tio
