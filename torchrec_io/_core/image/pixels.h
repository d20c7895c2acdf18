// Conversion of rows of pixels: colors, and the layout and dtype of the target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "image/view.h"

namespace tio {

// Both convert a row of pixels with four levels each in place.

// Converts cyan, magenta, yellow and black, stored inverted as in all JPEGs, to RGB by Pillow's
// rule.
void convert_cmyk(std::uint8_t* row, std::size_t pixels);

// Replaces RGB by one level for each pixel: its luma, with Pillow's weights.
void convert_to_luma(std::uint8_t* row, std::size_t pixels);

// Adds a fourth level, of no meaning, to pixels of three.
void expand_triples(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out);

// Writes rows of pixels to a target.
class PixelWriter {
 public:
  // A pixel of a row has `levels` levels, 1 or 4; of 4, the last has no meaning.
  PixelWriter(const PixelTarget& target, int levels, const ImageView& view)
      : target_(target),
        levels_(levels),
        rows_(view.height),
        pixels_(static_cast<std::size_t>(view.width)) {}

  void write(const std::uint8_t* row, std::int64_t number) const;

 private:
  // Loads the memory of a row into the cache, so that writing it later need not wait.
  void prefetch(std::int64_t number) const;
  template <class Value>
  void write_values(const std::uint8_t* row, std::int64_t number) const;
  // Writes a row of RGB through the tables, all channels of a pixel at once.
  template <class Value>
  void write_colors(const std::uint8_t* row, std::byte* out) const;
  // Writes whole blocks of pixels as bytes, and returns the number of pixels written.
  std::size_t write_blocks(const std::uint8_t* row, std::uint8_t* out) const;

  PixelTarget target_;
  int levels_;
  std::int64_t rows_;
  std::size_t pixels_;
};

namespace pixel_paths {

// Each function handles whole blocks of pixels with four levels, and returns their number.
#if defined(__x86_64__)
bool has_shuffle();
// Writes three planes, forwards or backwards from `out`.
std::size_t to_planes(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out,
                      std::int64_t plane_step, bool is_reversed);
// Writes RGB RGB ..., forwards or backwards from `out`.
std::size_t to_triples(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out,
                       bool is_reversed);
// Reads RGB RGB ... and writes pixels of four levels.
std::size_t from_triples(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out);
#endif

}  // namespace pixel_paths

}  // namespace tio
