// Parts of images, and where their pixels go.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tio {

// The part of an image that is used, and its size. All coordinates are those of the stored image.
struct ImageView {
  // The box of whole pixels that is cut out; pixels outside of it are not used.
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
  // The part of that box that is resized, relative to its left and top.
  double from_x = 0;
  double from_y = 0;
  double to_x = 0;
  double to_y = 0;
  // Size after resizing.
  std::int64_t height = 0;
  std::int64_t width = 0;
  // The image is decoded at so many eighths of its size: 1, 2, 4 or 8. The coordinates above are
  // those of the smaller image.
  int eighths = 8;
  // Whether a pixel is its nearest stored one, not an average of those around it.
  bool is_nearest = false;

  // Returns whether all coordinates are valid for an image of a size.
  bool fits(std::int64_t image_height, std::int64_t image_width) const;
  // Returns the same for the size before the image is decoded at a fraction of it.
  bool fits_stored(std::int64_t image_height, std::int64_t image_width) const {
    return fits((image_height * eighths + 7) / 8, (image_width * eighths + 7) / 8);
  }
  bool is_resized() const;
  // Returns whether the weights of resizing, which have 14 bits, are too small to be exact.
  bool shrinks_much() const;
  // Returns the same view of the image decoded at the smallest scale that has at least one pixel
  // for each needed one: at 1/8, 1/4 or 1/2, because other scales take longer than the full size.
  ImageView shrunk(std::int64_t image_height, std::int64_t image_width) const;
};

// Where the pixels of an image go: the value of channel c in column x of row y is written at
// `origin + y * row_step + x * column_step + c * channel_step`. Steps count values and may be
// negative, as for images that are mirrored.
struct PixelTarget {
  std::byte* origin = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  std::int64_t channel_step = 0;
  int channels = 3;     // 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA
  int value_bytes = 1;  // 1, 2, 4 or 8
  // If not null: the value to write for each of 256 levels of each channel, `channels` tables of
  // 256 values. Otherwise values have one byte and the levels themselves are written.
  const std::byte* tables = nullptr;
};

// What the header of an image file says.
struct ImageHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int components = 0;
};

struct JitterChoice;

// Where a view of an image goes.
struct ViewTarget {
  ImageView view;
  PixelTarget target;
  const JitterChoice* jitter = nullptr;  // changes of its colors; null: none
};

}  // namespace tio
