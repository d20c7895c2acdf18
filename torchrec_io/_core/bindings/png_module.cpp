// The Python module of PNG decoding. It is a module of its own, so that the core needs no
// libdeflate.
#include <memory>

#include "bindings/image_format.h"
#include "png/decoder.h"

namespace tio {
namespace {

struct Png {
  using Decoder = PngDecoder;
  static constexpr bool kHasFractions = false;
  static std::unique_ptr<PngDecoder> make(bool) { return std::make_unique<PngDecoder>(); }
  static bool open(Decoder& decoder, const StoredImages& images, std::size_t image,
                   ImageHeader& header, std::string& reason) {
    return decoder.open(images.files[image], header, reason);
  }
  static bool admits(Bytes) { return true; }
  // A byte of a DEFLATE stream yields at most 1032 bytes.
  static std::uint64_t most_pixels(Bytes image) { return image.size() * 1032; }
};

}  // namespace
}  // namespace tio

NB_MODULE(_png, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
  nb::module_::import_("torchrec_io._core");  // has the classes of arguments
  module.doc() =
      "PNG decoding of torchrec_io. Private: its names may change in any release.\n\n"
      "PNGs must have 8 bits a channel, no palette, and not be interlaced; alpha is dropped. It is "
      "missing from builds without libdeflate.";
  bind_exit(module);  // ReleasedGil of this module does not know that of the core
  bind_files<Png>(module);
  bind_columns<Png>(module);
}
