// Decoding of JPEG images by libjpeg-turbo: only the rows and columns that are needed, resized and
// written in any layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "image/view.h"
#include "wire/bytes.h"

namespace tio {

// What the header of a JPEG says.
struct JpegHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int components = 0;  // 1, 3 or 4
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
