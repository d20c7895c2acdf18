// Cutting out and resizing parts of an image whose rows are decoded from top to bottom.
//
// A decoder has these functions. Those that return bool return false with a reason if the image is
// damaged.
//   bool cut_columns(left, right, reason)  only these columns will be needed
//   void reserve_rows(count)               so many rows are needed at the same time
//   bool skip_rows(until, reason)          the rows before are not needed
//   bool read_rows(until, reason)          decodes all rows before this one
//   const std::uint8_t* at_column(row, column)  where a column starts in one of the last rows
//   int levels()                           levels of a pixel: 1, or 4 of which the last is not used
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "image/color_jitter.h"
#include "image/pixels.h"
#include "image/resample.h"
#include "image/view.h"

namespace tio {

// Writes the rows of one view, each once the stored rows that it is made of are decoded.
class PartWriter {
 public:
  // The view must be valid. A pixel of the decoder has `levels` levels.
  PartWriter(const ViewTarget& part, int levels)
      : view_(part.view),
        levels_(levels),
        jitter_(part.jitter),
        writer_(part.target, part.jitter != nullptr ? kColorLevels : levels, part.view) {
    if (jitter_ != nullptr) {
      colors_ = std::make_unique_for_overwrite<std::uint8_t[]>(
          static_cast<std::size_t>(view_.height * view_.width * kColorLevels));
    }
    if (!view_.is_resized()) {
      kind_ = Kind::copied;
    } else if (view_.is_nearest) {
      kind_ = Kind::nearest;
      rows_ = nearest_pixels(view_.from_y, view_.to_y, view_.height);
      columns_ = nearest_pixels(view_.from_x, view_.to_x, view_.width);
    } else {
      kind_ = Kind::averaged;
      across_.emplace(view_.right - view_.left, view_.from_x, view_.to_x, view_.width);
      down_.emplace(view_.bottom - view_.top, view_.from_y, view_.to_y, view_.height);
      inputs_.resize(static_cast<std::size_t>(down_->most()));
      const std::int64_t columns = right() - left() + across_->taps();
      summed_.resize(static_cast<std::size_t>(columns * levels_));
    }
    if (kind_ != Kind::copied) row_.resize(static_cast<std::size_t>(view_.width * levels_));
  }

  // The columns that are needed, the first row, and the number of rows at the same time.
  std::int64_t left() const { return view_.left + (across_ ? across_->first(0) : 0); }
  std::int64_t right() const { return across_ ? view_.left + across_->end() : view_.right; }
  std::int64_t rows_at_once() const { return down_ ? down_->most() : kRowsAtOnce; }

  bool is_done() const { return next_ == view_.height; }
  // The first and the last row that the next row is made of, and the row after it.
  std::int64_t first_needed() const {
    switch (kind_) {
      case Kind::copied: return view_.top + next_;
      case Kind::nearest: return view_.top + rows_[static_cast<std::size_t>(next_)];
      default: return view_.top + down_->first(next_);
    }
  }
  std::int64_t until_needed() const {
    return first_needed() + (kind_ == Kind::averaged ? down_->count(next_) : 1);
  }
  // The row until which it is best to decode.
  std::int64_t until_wanted() const {
    if (kind_ != Kind::copied) return until_needed();
    return std::min(first_needed() + kRowsAtOnce, view_.bottom);
  }

  // Writes the rows that are made of rows before `until`.
  template <class Decoder>
  void write(Decoder& decoder, std::int64_t until) {
    for (; !is_done() && until_needed() <= until; ++next_) write_next(decoder);
  }

 private:
  enum class Kind : std::uint8_t { copied, nearest, averaged };
  static constexpr std::int64_t kRowsAtOnce = 8;
  static constexpr int kColorLevels = 4;

  template <class Decoder>
  void write_next(Decoder& decoder) {
    const std::int64_t first = first_needed();
    if (kind_ == Kind::copied) return finish(decoder.at_column(first, view_.left));
    if (kind_ == Kind::nearest) {
      const std::uint8_t* const stored = decoder.at_column(first, view_.left);
      std::uint8_t* out = next_row();
      for (const std::int64_t column : columns_) {
        std::memcpy(out, stored + column * levels_, static_cast<std::size_t>(levels_));
        out += levels_;
      }
    } else {
      const std::int64_t count = down_->count(next_);
      for (std::int64_t i = 0; i < count; ++i) {
        inputs_[static_cast<std::size_t>(i)] = decoder.at_column(first + i, left());
      }
      resample_rows(inputs_.data(), down_->weights(next_), count,
                    static_cast<std::size_t>((right() - left()) * levels_), summed_.data());
      resample_columns(summed_.data(), *across_, levels_, next_row());
    }
    finish(next_row());
  }

  // Returns where the next row is resized to.
  std::uint8_t* next_row() {
    const bool is_colored = jitter_ != nullptr && levels_ == kColorLevels;
    return is_colored ? row_of_colors(next_) : row_.data();
  }

  // Writes the next row. Colors are changed when all rows are known.
  void finish(const std::uint8_t* row) {
    if (jitter_ == nullptr) return writer_.write(row, next_);
    const auto pixels = static_cast<std::size_t>(view_.width);
    std::uint8_t* const out = row_of_colors(next_);
    if (levels_ == 1) {
      for (std::size_t x = 0; x < pixels; ++x) {
        std::memset(out + x * kColorLevels, row[x], kColorLevels);
      }
    } else if (row != out) {
      std::memcpy(out, row, pixels * kColorLevels);
    }
    if (next_ + 1 < view_.height) return;
    apply(*jitter_, colors_.get(), pixels * static_cast<std::size_t>(view_.height), kColorLevels);
    for (std::int64_t y = 0; y < view_.height; ++y) writer_.write(row_of_colors(y), y);
  }
  std::uint8_t* row_of_colors(std::int64_t row) {
    return &colors_[static_cast<std::size_t>(row * view_.width * kColorLevels)];
  }

  ImageView view_;
  int levels_;
  const JitterChoice* jitter_;
  PixelWriter writer_;
  Kind kind_ = Kind::copied;
  std::int64_t next_ = 0;  // row to write
  std::optional<ResampleWeights> across_, down_;
  std::vector<std::int64_t> rows_, columns_;  // nearest stored ones
  std::vector<const std::uint8_t*> inputs_;
  std::vector<std::int16_t> summed_;
  std::vector<std::uint8_t> row_;
  std::unique_ptr<std::uint8_t[]> colors_;  // all rows, if their colors are changed
};

// Decodes views of an image and writes their pixels. The image is decoded once, and only as far as
// the views need it.
template <class Decoder>
bool write_parts(Decoder& decoder, std::span<const ViewTarget> parts, std::string& reason) {
  std::vector<PartWriter> writers;
  writers.reserve(parts.size());
  for (const ViewTarget& part : parts) writers.emplace_back(part, decoder.levels());
  std::int64_t left = writers[0].left();
  std::int64_t right = writers[0].right();
  std::int64_t first = writers[0].first_needed();
  std::int64_t rows = 0;
  for (const PartWriter& writer : writers) {
    first = std::min(first, writer.first_needed());
    left = std::min(left, writer.left());
    right = std::max(right, writer.right());
    rows = std::max(rows, writer.rows_at_once());
  }
  if (!decoder.cut_columns(left, right, reason)) return false;
  decoder.reserve_rows(rows);
  if (!decoder.skip_rows(first, reason)) return false;
  while (true) {
    std::int64_t until = INT64_MAX;
    for (const PartWriter& writer : writers) {
      if (!writer.is_done()) until = std::min(until, writer.until_wanted());
    }
    if (until == INT64_MAX) return true;
    if (!decoder.read_rows(until, reason)) return false;
    for (PartWriter& writer : writers) writer.write(decoder, until);
  }
}

}  // namespace tio
