// Image files: the markers of JPEGs, and the filters of PNGs.
#include "bindings/arrays.h"
#include "image/jpeg_markers.h"
#include "image/png.h"
#include "image/random_crop.h"
#include "image/view.h"

namespace tio {
namespace {

using CropTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;

// Adds the method that chooses a part of an image.
template <class Rule>
void bind_choose(nb::class_<Rule>& rule) {
  rule.def(
      "choose",
      [](const Rule& self, std::int64_t height, std::int64_t width, nb::bytes key) -> CropTuple {
        if (height < 1 || width < 1) throw nb::value_error("an image must have pixels");
        if (key.size() != 16) throw nb::value_error("a key must have 16 bytes");
        const Bytes bytes{static_cast<const std::byte*>(key.data()), key.size()};
        Philox random(load<std::uint64_t>(bytes, 0), load<std::uint64_t>(bytes, 8));
        const Crop crop = self(height, width, random);
        return {crop.top, crop.left, crop.height, crop.width, crop.is_flipped};
      },
      "height"_a, "width"_a, "key"_a,
      "Choose a part of an image: top, left, height, width, and whether it is mirrored.\n\n"
      "Args:\n"
      "    height: Height of the image.\n"
      "    width: Width of the image.\n"
      "    key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,\n"
      "        little-endian.");
}

void bind_crops(nb::module_& m) {
  using Pair = std::pair<double, double>;
  nb::class_<RandomResizedCrop> resized(m, "RandomResizedCrop",
                                        "The class of the same name in torchrec_io.");
  resized.def(nb::new_([](Pair scale, Pair ratio, Pair log_ratio, double flip) {
                return RandomResizedCrop{{scale.first, scale.second},
                                         {ratio.first, ratio.second},
                                         {log_ratio.first, log_ratio.second},
                                         flip};
              }),
              "scale"_a, "ratio"_a, "log_ratio"_a, "flip"_a);
  bind_choose(resized);

  nb::class_<RandomCrop> fixed(m, "RandomCrop", "The class of the same name in torchrec_io.");
  fixed.def(nb::new_([](std::int64_t height, std::int64_t width, double flip) {
              return RandomCrop{height, width, flip};
            }),
            "height"_a, "width"_a, "flip"_a);
  bind_choose(fixed);

  nb::class_<RandomFlip> whole(m, "RandomFlip", "The class of the same name in torchrec_io.");
  whole.def(nb::new_([](double flip) { return RandomFlip{flip}; }), "flip"_a);
  bind_choose(whole);
}

using Box = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Part = std::tuple<double, double, double, double>;
using Size = std::tuple<std::int64_t, std::int64_t>;

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

// The class is part of the core because several modules of decoding take it.
void bind_view(nb::module_& m) {
  nb::class_<ImageView>(m, "ImageView", "The part of an image that is used, and its size.")
      .def("__init__", &set_view, "box"_a, "part"_a, "size"_a, "eighths"_a = 8,
           "Args:\n"
           "    box: Left, top, right and bottom of the part that is cut out.\n"
           "    part: The part of the box that is resized, in the same form.\n"
           "    size: Height and width after resizing.\n"
           "    eighths: The image is decoded at so many eighths of its size: 1, 2, 4 or 8. `box`\n"
           "        and `part` refer to the smaller image.")
      .def_ro("eighths", &ImageView::eighths, "Scale of decoding, in eighths.");
}

}  // namespace

void bind_image(nb::module_& m) {
  nb::enum_<JpegFault>(m, "JpegFault", "Reason to refuse a JPEG without decoding it.")
      .value("truncated", JpegFault::truncated, "The file ends before its end marker.")
      .value("invalid_marker", JpegFault::invalid_marker,
             "A marker is unknown, or its segment is invalid.")
      .value("several_frames", JpegFault::several_frames, "There is a second frame header.")
      .value("unsupported_coding", JpegFault::unsupported_coding,
             "The pixels are coded in an arithmetic or hierarchical way.")
      .value("unsupported_precision", JpegFault::unsupported_precision,
             "Values do not have 8 bits.")
      .value("too_many_scans", JpegFault::too_many_scans, "There are more scans than allowed.")
      .value("too_many_segments", JpegFault::too_many_segments,
             "There are more than MAX_JPEG_SEGMENTS segments, or MAX_JPEG_SEGMENT_BYTES in them.")
      .value("stray_bytes", JpegFault::stray_bytes,
             "More than MAX_STRAY_JPEG_BYTES bytes between segments belong to none.")
      .value("missing_scans", JpegFault::missing_scans,
             "The scans do not have all bits of all coefficients.")
      .value("missing_restarts", JpegFault::missing_restarts,
             "A scan has fewer restart markers than its size needs.");
  m.attr("MAX_JPEG_SEGMENTS") = kMaxJpegSegments;
  m.attr("MAX_JPEG_SEGMENT_BYTES") = kMaxJpegSegmentBytes;
  m.attr("MAX_STRAY_JPEG_BYTES") = kMaxStrayJpegBytes;

  nb::class_<JpegMarkers>(m, "JpegMarkers",
                          "What the markers of a JPEG say.\n\n"
                          "The fields of the frame are 0 if a fault comes before it.")
      .def_ro("fault", &JpegMarkers::fault, "First fault; None if there is none.")
      .def_ro("coding", &JpegMarkers::coding, "Second byte of the marker of the frame.")
      .def_ro("precision", &JpegMarkers::precision, "Bits of a value.")
      .def_ro("width", &JpegMarkers::width, "Width of the frame.")
      .def_ro("height", &JpegMarkers::height, "Height of the frame.")
      .def_ro("scans", &JpegMarkers::scans, "Number of scans.");
  m.def(
      "read_jpeg_markers",
      [](const Buffer& data, std::uint32_t max_scans) {
        return read_jpeg_markers(bytes_of(data), max_scans);
      },
      Unlocked(), "data"_a, "max_scans"_a,
      "Read the markers of a JPEG, without decoding it, up to its end or the first fault.\n\n"
      "Args:\n"
      "    data: Bytes of the file.\n"
      "    max_scans: Most scans that are allowed.");

  m.def(
      "unfilter_png",
      [](const WritableBuffer& data, std::size_t row_bytes, std::size_t pixel_bytes) {
        return unfilter_png(writable_bytes(data), row_bytes, pixel_bytes);
      },
      Unlocked(), "data"_a, "row_bytes"_a, "pixel_bytes"_a,
      "Reverse the filters of the rows of a PNG image, in place.\n\n"
      "Args:\n"
      "    data: Rows; each has a byte that names its filter, and `row_bytes` bytes of pixels.\n"
      "    row_bytes: Bytes of the pixels of a row.\n"
      "    pixel_bytes: Bytes of a pixel, 1 to 8.\n\n"
      "Returns:\n"
      "    False if the rows do not fill `data`, or if a filter is unknown.");

  bind_crops(m);
  bind_view(m);
}

}  // namespace tio
