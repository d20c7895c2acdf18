// Resizing of images by an antialiased bilinear filter, one row at a time. The weights are those of
// Pillow's Image.resize(resample=BILINEAR, box=...).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tio {

// The weights of the pixels that each resized pixel is made of, along one axis.
class ResampleWeights {
 public:
  static constexpr int kBits = 14;  // a weight of 1 is 1 << kBits; the weights of a pixel sum to it
  static constexpr int kGroup = 4;  // weights are padded with zeros to a multiple of this

  // The part from `begin` to `end` of an axis of `stored` pixels becomes `resized` pixels. 0 <=
  // begin < end <= stored, and both sizes are positive.
  ResampleWeights(std::int64_t stored, double begin, double end, std::int64_t resized);

  std::int64_t size() const { return static_cast<std::int64_t>(first_.size()); }
  // First stored pixel of a resized one, and the number of its pixels, at least 1.
  std::int64_t first(std::int64_t pixel) const { return first_[pixel]; }
  std::int64_t count(std::int64_t pixel) const { return count_[pixel]; }
  // Largest count.
  std::int64_t most() const { return most_; }
  // Stored pixel after the last one that is used.
  std::int64_t end() const { return first_.back() + count_.back(); }
  // Largest count rounded up to a multiple of kGroup: the number of weights of each pixel.
  std::int64_t taps() const { return taps_; }
  const std::int16_t* weights(std::int64_t pixel) const { return &weights_[pixel * taps_]; }

 private:
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> count_;
  std::vector<std::int16_t> weights_;
  std::int64_t most_ = 0;
  std::int64_t taps_ = 0;
};

// Rows between the two passes have this many fractional bits.
inline constexpr int kRowBits = 7;

// Adds up `count` rows of `size` bytes, each with its weight.
void resample_rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t count,
                   std::size_t size, std::int16_t* out);

// Resizes a row that resample_rows() made, whose first pixel is the first one that is used. A pixel
// has `channels` values, 1 or 4. As many pixels as `weights.taps()` may be read after the end of
// the row.
void resample_columns(const std::int16_t* row, const ResampleWeights& weights, int channels,
                      std::uint8_t* out);

// Returns the nearest stored pixel of each of `count` resized ones, for the part from `begin` to
// `end` of an axis. Steps are added up as in Pillow's NEAREST, so that pixels halfway between two
// are rounded as there.
std::vector<std::int64_t> nearest_pixels(double begin, double end, std::int64_t count);

}  // namespace tio
