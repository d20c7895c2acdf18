// Cutting out and resizing a part of an image whose rows are decoded from top to bottom.
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
#include <string>
#include <vector>

#include "image/pixels.h"
#include "image/resample.h"
#include "image/view.h"

namespace tio {

// Memory that is used again for the next image.
struct PartBuffers {
  std::vector<const std::uint8_t*> inputs;
  std::vector<std::int16_t> summed;
  std::vector<std::uint8_t> resized;
};

template <class Decoder>
bool copy_part(Decoder& decoder, const ImageView& view, const PixelWriter& writer,
               std::string& reason) {
  if (!decoder.cut_columns(view.left, view.right, reason)) return false;
  constexpr std::int64_t kRowsAtOnce = 8;
  decoder.reserve_rows(kRowsAtOnce);
  if (!decoder.skip_rows(view.top, reason) || !decoder.read_rows(view.top, reason)) return false;
  for (std::int64_t row = view.top; row < view.bottom;) {
    const std::int64_t end = std::min(row + kRowsAtOnce, view.bottom);
    if (!decoder.read_rows(end, reason)) return false;
    for (; row < end; ++row) writer.write(decoder.at_column(row, view.left), row - view.top);
  }
  return true;
}

template <class Decoder>
bool resize_part(Decoder& decoder, const ImageView& view, const PixelWriter& writer,
                 PartBuffers& buffers, std::string& reason) {
  const ResampleWeights across(view.right - view.left, view.from_x, view.to_x, view.width);
  const ResampleWeights down(view.bottom - view.top, view.from_y, view.to_y, view.height);
  const std::int64_t left = view.left + across.first(0);
  const std::int64_t right = view.left + across.end();
  if (!decoder.cut_columns(left, right, reason)) return false;
  decoder.reserve_rows(down.most());
  const int levels = decoder.levels();
  const auto part = static_cast<std::size_t>((right - left) * levels);
  buffers.summed.resize(part + static_cast<std::size_t>(across.taps() * levels));
  buffers.resized.resize(static_cast<std::size_t>(view.width * levels));
  buffers.inputs.resize(static_cast<std::size_t>(down.most()));
  if (!decoder.skip_rows(view.top + down.first(0), reason)) return false;
  for (std::int64_t y = 0; y < view.height; ++y) {
    const std::int64_t first = view.top + down.first(y);
    const std::int64_t count = down.count(y);
    if (!decoder.read_rows(first + count, reason)) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      buffers.inputs[i] = decoder.at_column(first + i, left);
    }
    resample_rows(buffers.inputs.data(), down.weights(y), count, part, buffers.summed.data());
    resample_columns(buffers.summed.data(), across, levels, buffers.resized.data());
    writer.write(buffers.resized.data(), y);
  }
  return true;
}

// Decodes a view of an image and writes its pixels.
template <class Decoder>
bool write_part(Decoder& decoder, const ImageView& view, const PixelWriter& writer,
                PartBuffers& buffers, std::string& reason) {
  return view.is_resized() ? resize_part(decoder, view, writer, buffers, reason)
                           : copy_part(decoder, view, writer, reason);
}

}  // namespace tio
