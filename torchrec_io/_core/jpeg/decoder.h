// Decoding of JPEG images by libjpeg-turbo: only the rows and columns that are needed, resized and
// written in any layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "image/view.h"
#include "wire/bytes.h"

namespace tio {

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

  // Starts to read an image, which must stay valid until decode() returns. Components are 1, 3
  // or 4. Returns false with a reason if it is not a JPEG that can be decoded.
  bool open(Bytes image, ImageHeader& header, std::string& reason);

  // Decodes parts of the image that was opened, at one scale, all of them with gray pixels or all
  // with colors. The targets must have room for them. Returns false with a reason if a view does
  // not lie in the image, or the image is damaged; the content of the targets is then undefined.
  bool decode(std::span<const ViewTarget> parts, std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tio
