// The Python module of JPEG decoding. It is a module of its own, so that the core needs no
// libjpeg-turbo.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "jpeg/decoder.h"

namespace tio {
namespace {

// An array of pixels [H, W, C], of any dtype and with any strides.
using PixelArray = nb::ndarray<nb::ndim<3>, nb::device::cpu>;
using Box = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Part = std::tuple<double, double, double, double>;
using Size = std::tuple<std::int64_t, std::int64_t>;
using Failures = std::vector<std::pair<std::size_t, std::string>>;

// What is known of a JPEG before it is decoded.
struct HeaderResult {
  JpegHeader header;
  std::string reason;  // why it cannot be decoded; empty if it can
};

std::vector<Bytes> bytes_of_all(const Items<Buffer>& images) {
  std::vector<Bytes> all;
  all.reserve(images.values().size());
  for (const Buffer& image : images.values()) all.push_back(bytes_of(image));
  return all;
}

void set_view(ImageView* self, const Box& box, const Part& part, const Size& size, int eighths) {
  if (eighths != 1 && eighths != 2 && eighths != 4 && eighths != 8) {
    throw nb::value_error("eighths must be 1, 2, 4 or 8");
  }
  const auto& [left, top, right, bottom] = box;
  const auto& [from_x, from_y, to_x, to_y] = part;
  const auto& [height, width] = size;
  new (self)
      ImageView{left, top, right, bottom, from_x, from_y, to_x, to_y, height, width, eighths};
}

PixelTarget target_of(const PixelArray& array, const ImageView& view, const Buffer* tables) {
  const auto channels = array.shape(2);
  const auto value_bytes = array.itemsize();
  const auto has_size = [&array](std::size_t axis, std::int64_t size) {
    return static_cast<std::int64_t>(array.shape(axis)) == size;
  };
  if (!has_size(0, view.height) || !has_size(1, view.width) || channels < 1 || channels > 4) {
    throw nb::value_error("a target must have the shape [height, width, 1 to 4] of its view");
  }
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8) {
    throw nb::value_error("values of a target must have 1, 2, 4 or 8 bytes");
  }
  if (tables == nullptr ? value_bytes != 1 : tables->size() != channels * 256 * value_bytes) {
    throw nb::value_error("tables must have 256 values for each channel of the targets");
  }
  return {static_cast<std::byte*>(array.data()),
          array.stride(0),
          array.stride(1),
          array.stride(2),
          static_cast<int>(channels),
          static_cast<int>(value_bytes),
          tables == nullptr ? nullptr : bytes_of(*tables).data()};
}

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
  const Items<Buffer> files(images);
  const Items<const ImageView*> parts(views);
  const Items<PixelArray> arrays(targets);
  const std::vector<Bytes> all = bytes_of_all(files);
  if (parts.values().size() != all.size() || arrays.values().size() != all.size()) {
    throw nb::value_error("images, views and targets must have the same number");
  }
  std::vector<PixelTarget> pixels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    pixels.push_back(
        target_of(arrays.values()[i], *parts.values()[i], tables ? &*tables : nullptr));
  }
  const ReleasedGil unlocked;
  Failures failures;
  JpegDecoder decoder(fast);
  JpegHeader header;
  std::string reason;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!decoder.open(all[i], header, reason) ||
        !decoder.decode(*parts.values()[i], pixels[i], reason)) {
      failures.emplace_back(i, reason);
    }
  }
  return failures;
}

}  // namespace
}  // namespace tio

NB_MODULE(_jpeg, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
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
  nb::class_<ImageView>(module, "ImageView", "The part of an image that is used, and its size.")
      .def("__init__", &set_view, "box"_a, "part"_a, "size"_a, "eighths"_a = 8,
           "Args:\n"
           "    box: Left, top, right and bottom of the part that is cut out.\n"
           "    part: The part of the box that is resized, in the same form.\n"
           "    size: Height and width after resizing.\n"
           "    eighths: The image is decoded at so many eighths of its size: 1, 2, 4 or 8. `box`\n"
           "        and `part` refer to the smaller image.")
      .def_ro("eighths", &ImageView::eighths, "Scale of decoding, in eighths.");
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
