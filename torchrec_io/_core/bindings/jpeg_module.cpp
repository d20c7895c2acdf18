// The Python module of JPEG decoding. It is a module of its own, so that the core needs no
// libjpeg-turbo.
#include <cstring>
#include <memory>

#include "bindings/image_format.h"
#include "image/jpeg_markers.h"
#include "jpeg/decoder.h"

namespace tio {
namespace {

struct Jpeg {
  using Decoder = JpegDecoder;
  static constexpr bool kHasFractions = true;
  static std::unique_ptr<JpegDecoder> make(bool is_fast) {
    return std::make_unique<JpegDecoder>(is_fast);
  }
  static bool open(Decoder& decoder, const StoredImages& images, std::size_t image,
                   ImageHeader& header, std::string& reason) {
    return decoder.open(images.files[image], header, reason);
  }
  static bool admits(Bytes image) {
    constexpr std::uint8_t kSignature[] = {0xff, 0xd8, 0xff};
    return image.size() > 3 && std::memcmp(image.data(), kSignature, 3) == 0 &&
           !read_jpeg_markers(image, kMaxJpegScans).fault;
  }
  // A block of 64 values takes a bit at least, and one component has all pixels.
  static std::uint64_t most_pixels(Bytes image) { return image.size() * 8 * 64; }
};

}  // namespace
}  // namespace tio

NB_MODULE(_jpeg, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
  nb::module_::import_("torchrec_io._core");  // has the classes of arguments
  module.doc() =
      "JPEG decoding of torchrec_io. Private: its names may change in any release.\n\n"
      "It is missing from builds without libjpeg-turbo.";
  bind_exit(module);  // ReleasedGil of this module does not know that of the core
  bind_files<Jpeg>(module);
  bind_columns<Jpeg>(module);
}
