// Decoding of JPEG images by libjpeg-turbo: only the rows and columns that are needed, resized and
// written in any layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "wire/bytes.h"

namespace tio {

// What the header of a JPEG says.
struct JpegHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int components = 0;  // 1, 3 or 4
};

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

  // Returns whether all coordinates are valid for an image of a size.
  bool fits(std::int64_t image_height, std::int64_t image_width) const;
  bool is_resized() const;
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

// Decodes one image after another. Not safe to use from two threads at the same time. The caller
// checks the markers of an image first (image/jpeg_markers.h), which limits the time that decoding
// takes; and its size, which limits the memory.
class JpegDecoder {
 public:
  // `is_fast` chooses libjpeg's fast DCT instead of the accurate one, and the stored luma for gray
  // pixels instead of the luma of the colors.
  explicit JpegDecoder(bool is_fast = false);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Starts to read an image, which must stay valid until decode() returns. Returns false with a
  // reason if it is not a JPEG that can be decoded.
  bool open(Bytes image, JpegHeader& header, std::string& reason);

  // Decodes a part of the image that was opened. The target must have room for it. Returns false
  // with a reason if the view does not lie in the image, or the image is damaged; the content of
  // the target is then undefined.
  bool decode(const ImageView& view, const PixelTarget& target, std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tio
