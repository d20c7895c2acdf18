// Decoding of PNG images with 8 bits a channel, by libdeflate: resized and written in any layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

  // Starts to read an image, which must stay valid until decode() returns. Returns false with a
  // reason if it is not a PNG of gray or RGB, with or without alpha, which is dropped; or if it is
  // interlaced.
  bool open(Bytes image, ImageHeader& header, std::string& reason);

  // Decodes parts of the image that was opened, as JpegDecoder does.
  bool decode(std::span<const ViewTarget> parts, std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tio
