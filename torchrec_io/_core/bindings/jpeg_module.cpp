// The Python module of JPEG decoding. It is a module of its own, so that the core needs no
// libjpeg-turbo.
#include "bindings/image_module.h"
#include "jpeg/decoder.h"

namespace tio {
namespace {

// What is known of a JPEG before it is decoded.
struct HeaderResult {
  JpegHeader header;
  std::string reason;  // why it cannot be decoded; empty if it can
};

std::vector<HeaderResult> bind_read_headers(const Sequence<Buffer>& images) {
  const Items<Buffer> files(images);
  const std::vector<Bytes> all = bytes_of_all(files);
  const ReleasedGil unlocked;
  std::vector<HeaderResult> results(all.size());
  JpegDecoder decoder;
  for (std::size_t i = 0; i < all.size(); ++i) {
    decoder.open(all[i], results[i].header, results[i].reason);
  }
  return results;
}

Failures bind_decode(const Sequence<Buffer>& images, const Sequence<ImageView>& views,
                     const Sequence<PixelArray>& targets, const std::optional<Buffer>& tables,
                     bool fast) {
  JpegDecoder decoder(fast);
  JpegHeader header;
  return decode_all(
      images, views, targets, tables,
      [&](Bytes image, const ImageView& view, const PixelTarget& target, std::string& reason) {
        return decoder.open(image, header, reason) && decoder.decode(view, target, reason);
      });
}

}  // namespace
}  // namespace tio

NB_MODULE(_jpeg, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
  nb::module_::import_("torchrec_io._core");  // has ImageView
  module.doc() =
      "JPEG decoding of torchrec_io. Private: its names may change in any release.\n\n"
      "It is missing from builds without libjpeg-turbo.";
  bind_exit(module);  // ReleasedGil of this module does not know that of the core
  nb::class_<HeaderResult>(module, "JpegHeader", "What is known of a JPEG before it is decoded.")
      .def_prop_ro(
          "height", [](const HeaderResult& self) { return self.header.height; },
          "Height of the stored image in pixels.")
      .def_prop_ro(
          "width", [](const HeaderResult& self) { return self.header.width; },
          "Width of the stored image in pixels.")
      .def_prop_ro(
          "components", [](const HeaderResult& self) { return self.header.components; },
          "Number of color components: 1, 3 or 4.")
      .def_ro("reason", &HeaderResult::reason,
              "Reason why the image cannot be decoded; empty if it can.");
  module.def("read_jpeg_headers", &bind_read_headers, "images"_a,
             "Return the headers of JPEGs; uint8 `[size]` each.");
  module.def("decode_jpegs", &bind_decode, "images"_a, "views"_a, "targets"_a,
             "tables"_a.none() = nb::none(), nb::kw_only(), "fast"_a = false,
             "Decode parts of JPEGs into arrays.\n\n"
             "Args:\n"
             "    images: JPEGs; uint8 `[size]` each.\n"
             "    views: Part of each image.\n"
             "    targets: Array of each image, `[height, width, channels]`, with any strides.\n"
             "    tables: Values to write for the levels 0 to 255 of each channel, as bytes; by\n"
             "        default the levels, for targets of uint8.\n"
             "    fast: Use the fast DCT.\n\n"
             "Returns:\n"
             "    The position of each image that cannot be decoded, with the reason.");
}
