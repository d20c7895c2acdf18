// Decoding of PNG images with 8 bits a channel, by libdeflate: resized and written in any layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "image/view.h"
#include "wire/bytes.h"

namespace tio {

// Decodes one image after another. Not safe to use from two threads at the same time. The caller
// checks the size of an image first, which limits the memory.
class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // Decodes a part of an image: gray or RGB, with or without alpha, which is dropped; not
  // interlaced. The target must have room for the part. Returns false with a reason if the image is
  // another one or damaged, or if the view does not lie in it; the content of the target is then
  // undefined.
  bool decode(Bytes image, const ImageView& view, const PixelTarget& target, std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tio
