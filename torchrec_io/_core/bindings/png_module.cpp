// The Python module of PNG decoding. It is a module of its own, so that the core needs no
// libdeflate.
#include "bindings/image_module.h"
#include "png/decoder.h"

namespace tio {
namespace {

Failures bind_decode(const Sequence<Buffer>& images, const Sequence<ImageView>& views,
                     const Sequence<PixelArray>& targets, const std::optional<Buffer>& tables) {
  PngDecoder decoder;
  return decode_all(
      images, views, targets, tables,
      [&decoder](Bytes image, const ImageView& view, const PixelTarget& target,
                 std::string& reason) { return decoder.decode(image, view, target, reason); });
}

}  // namespace
}  // namespace tio

NB_MODULE(_png, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
  nb::module_::import_("torchrec_io._core");  // has ImageView
  module.doc() =
      "PNG decoding of torchrec_io. Private: its names may change in any release.\n\n"
      "It is missing from builds without libdeflate.";
  bind_exit(module);  // ReleasedGil of this module does not know that of the core
  module.def("decode_pngs", &bind_decode, "images"_a, "views"_a, "targets"_a,
             "tables"_a.none() = nb::none(),
             "Decode parts of PNGs into arrays.\n\n"
             "The PNGs must have 8 bits a channel, no palette, and not be interlaced.\n\n"
             "Args:\n"
             "    images: PNGs; uint8 `[size]` each.\n"
             "    views: Part of each image.\n"
             "    targets: Array of each image, `[height, width, 1 or 3]`, with any strides.\n"
             "    tables: Values to write for the levels 0 to 255 of each channel, as bytes; by\n"
             "        default the levels, for targets of uint8.\n\n"
             "Returns:\n"
             "    The position of each image that cannot be decoded, with the reason.");
}
