#include "image/pixels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tio {
namespace {

constexpr std::uint8_t kOpaque = 255;

// Returns a * b / 255, rounded, as Pillow does.
std::uint32_t multiply_levels(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

}  // namespace

void convert_cmyk(std::uint8_t* row, std::size_t pixels) {
  for (std::size_t x = 0; x < pixels; ++x, row += 4) {
    const std::uint32_t light = row[3];
    for (int c = 0; c < 3; ++c) {
      row[c] = static_cast<std::uint8_t>(light - multiply_levels(255U - row[c], light));
    }
  }
}

void convert_to_luma(std::uint8_t* row, std::size_t pixels) {
  for (std::size_t x = 0; x < pixels; ++x) {
    const std::uint8_t* const color = row + x * 4;
    row[x] = static_cast<std::uint8_t>(
        (color[0] * 19595U + color[1] * 38470U + color[2] * 7471U + 0x8000U) >> 16);
  }
}

void expand_triples(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out) {
  std::size_t x = 0;
#if defined(__x86_64__)
  if (pixel_paths::has_shuffle()) x = pixel_paths::from_triples(row, pixels, out);
#endif
  for (; x < pixels; ++x) std::memcpy(out + 4 * x, row + 3 * x, 3);
}

void PixelWriter::prefetch(std::int64_t number) const {
  constexpr std::int64_t kCacheLine = 64;
  const std::int64_t step = std::abs(target_.column_step);
  const bool has_planes = step == 1;
  if (!has_planes && step != target_.channels) return;  // the row is not in one piece
  const std::int64_t size = target_.value_bytes;
  const std::int64_t bytes = static_cast<std::int64_t>(pixels_) * step * size;
  std::byte* from = target_.origin + number * target_.row_step * size;
  if (target_.column_step < 0) from -= bytes - step * size;
  for (int plane = 0; plane < (has_planes ? target_.channels : 1); ++plane) {
    for (std::int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at, 1);
    from += target_.channel_step * size;
  }
}

void PixelWriter::write(const std::uint8_t* row, std::int64_t number) const {
  if (number + 1 < rows_) prefetch(number + 1);
  switch (target_.value_bytes) {
    case 1: return write_values<std::uint8_t>(row, number);
    case 2: return write_values<std::uint16_t>(row, number);
    case 4: return write_values<std::uint32_t>(row, number);
    default: return write_values<std::uint64_t>(row, number);
  }
}

// Values are copied as unsigned integers of their size, whatever their dtype.
template <class Value>
void PixelWriter::write_values(const std::uint8_t* row, std::int64_t number) const {
  const auto size = static_cast<std::int64_t>(sizeof(Value));
  std::byte* const out = target_.origin + number * target_.row_step * size;
  if (target_.tables != nullptr && levels_ == 4 && target_.channels == 3) {
    return write_colors<Value>(row, out);
  }
  std::size_t done = 0;
  if constexpr (sizeof(Value) == 1) {
    if (target_.tables == nullptr && levels_ == 4 && target_.channels == 3) {
      done = write_blocks(row, reinterpret_cast<std::uint8_t*>(out));
    }
  }
  const int colors = target_.channels < 3 ? 1 : 3;
  for (int channel = 0; channel < target_.channels; ++channel) {
    std::byte* const plane = out + channel * target_.channel_step * size;
    const std::byte* const table =
        target_.tables == nullptr ? nullptr : target_.tables + channel * 256 * size;
    const bool is_alpha = channel == colors;
    const std::uint8_t* const from = row + (levels_ == 1 ? 0 : channel);
    for (std::size_t x = done; x < pixels_; ++x) {
      const std::uint8_t level = is_alpha ? kOpaque : from[x * levels_];
      Value value = static_cast<Value>(level);
      if (table != nullptr) std::memcpy(&value, table + level * size, sizeof(Value));
      std::memcpy(plane + static_cast<std::int64_t>(x) * target_.column_step * size, &value,
                  sizeof(Value));
    }
  }
}

// All sizes are in local variables, because the bytes that are written might be members.
template <class Value>
void PixelWriter::write_colors(const std::uint8_t* row, std::byte* out) const {
  const auto size = static_cast<std::int64_t>(sizeof(Value));
  const std::int64_t step = target_.column_step * size;
  const std::byte* const tables[3] = {target_.tables, target_.tables + 256 * size,
                                      target_.tables + 512 * size};
  std::byte* planes[3] = {out, out + target_.channel_step * size,
                          out + target_.channel_step * size * 2};
  const std::uint8_t* const end = row + pixels_ * 4;
  for (; row != end; row += 4) {
    for (int channel = 0; channel < 3; ++channel) {
      std::memcpy(planes[channel], tables[channel] + row[channel] * size, sizeof(Value));
      planes[channel] += step;
    }
  }
}

std::size_t PixelWriter::write_blocks(const std::uint8_t* row, std::uint8_t* out) const {
#if defined(__x86_64__)
  if (!pixel_paths::has_shuffle()) return 0;
  const std::int64_t step = target_.column_step;
  if (step == 1 || step == -1) {
    return pixel_paths::to_planes(row, pixels_, out, target_.channel_step, step < 0);
  }
  if ((step == 3 || step == -3) && target_.channel_step == 1) {
    return pixel_paths::to_triples(row, pixels_, out, step < 0);
  }
#else
  static_cast<void>(row);
  static_cast<void>(out);
#endif
  return 0;
}

}  // namespace tio
