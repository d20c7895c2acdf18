// Images: the markers of JPEGs, the filters of PNGs, random crops and colors.
#include <nanobind/stl/array.h>
#include <nanobind/stl/variant.h>

#include "bindings/arrays.h"
#include "image/color_jitter.h"
#include "image/jpeg_markers.h"
#include "image/png.h"
#include "image/random_crop.h"
#include "image/view.h"
#include "image/view_rule.h"

namespace tio {
namespace {

Philox philox_of(const nb::bytes& key) {
  if (key.size() != 16) throw nb::value_error("a key must have 16 bytes");
  const Bytes bytes{static_cast<const std::byte*>(key.data()), key.size()};
  return {load<std::uint64_t>(bytes, 0), load<std::uint64_t>(bytes, 8)};
}

using CropTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;

// Adds the method that chooses a part of an image.
template <class Rule>
void bind_choose(nb::class_<Rule>& rule) {
  rule.def(
      "choose",
      [](const Rule& self, std::int64_t height, std::int64_t width, nb::bytes key) -> CropTuple {
        if (height < 1 || width < 1) throw nb::value_error("an image must have pixels");
        Philox random = philox_of(key);
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

void bind_jitter(nb::module_& m) {
  using Range = ColorJitter::Range;
  using Pixels = nb::ndarray<std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
  nb::class_<ColorJitter>(m, "ColorJitter", "The class of the same name in torchrec_io.")
      .def(nb::new_([](const Range& brightness, const Range& contrast, const Range& saturation,
                       const Range& hue, double probability) {
             const ColorJitter jitter{{brightness, contrast, saturation, hue}, probability};
             for (const Range& range : jitter.ranges) {
               const double least = &range == &jitter.ranges.back() ? -0.5 : 0;
               const double most = least == 0 ? ColorJitter::kMostFactor : 0.5;
               if (!(least <= range[0] && range[0] <= range[1] && range[1] <= most)) {
                 throw nb::value_error("a range is not valid");
               }
             }
             return jitter;
           }),
           "brightness"_a, "contrast"_a, "saturation"_a, "hue"_a, "probability"_a,
           "Args:\n"
           "    brightness: Smallest and largest factor.\n"
           "    contrast: Smallest and largest factor.\n"
           "    saturation: Smallest and largest factor.\n"
           "    hue: Smallest and largest part of the circle, from -0.5 to 0.5.\n"
           "    probability: Probability that an image is changed.")
      .def(
          "apply",
          [](const ColorJitter& self, const Pixels& pixels, const nb::bytes& key) {
            if (pixels.shape(2) != 3 && pixels.shape(2) != 4) {
              throw nb::value_error("pixels must have 3 or 4 channels");
            }
            Philox random = philox_of(key);
            const ReleasedGil released;
            apply(self.choose(random), pixels.data(), pixels.shape(0) * pixels.shape(1),
                  static_cast<int>(pixels.shape(2)));
          },
          "pixels"_a.noconvert(), "key"_a,
          "Change the colors of an image at random, in place.\n\n"
          "Args:\n"
          "    pixels: Levels [H, W, 3] or [H, W, 4]; the fourth channel is kept.\n"
          "    key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,\n"
          "        little-endian.");
}

using Box = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Part = std::tuple<double, double, double, double>;
using Size = std::tuple<std::int64_t, std::int64_t>;

// The class is part of the core because several modules of decoding take it.
void bind_view(nb::module_& m) {
  nb::class_<ImageView>(m, "ImageView", "The part of an image that is used, and its size.")
      .def(nb::new_([](const Box& box, const Part& part, const Size& size) {
             const auto& [left, top, right, bottom] = box;
             const auto& [from_x, from_y, to_x, to_y] = part;
             const auto& [height, width] = size;
             return ImageView{left, top, right, bottom, from_x, from_y, to_x, to_y, height, width};
           }),
           "box"_a, "part"_a, "size"_a,
           "Args:\n"
           "    box: Left, top, right and bottom of the part that is cut out.\n"
           "    part: The part of the box that is resized, in the same form.\n"
           "    size: Height and width after resizing.");
}

using Position = std::tuple<std::int64_t, std::int64_t>;

// The classes are part of the core for the same reason.
void bind_rules(nb::module_& m) {
  nb::enum_<Fit::Method>(m, "FitMethod", "Ways to reach a size.")
      .value("whole", Fit::Method::whole, "Values have the sizes of the images.")
      .value("none", Fit::Method::none, "Images must have the size.")
      .value("stretch", Fit::Method::stretch, "Height and width are resized by their own ratios.")
      .value("cover", Fit::Method::cover, "What extends past the size is cut off.")
      .value("contain", Fit::Method::contain, "Something is left around the whole image.");
  nb::class_<Fit>(m, "Fit", "How images become values of one size.")
      .def(nb::new_([](const Size& size, Fit::Method method, std::int64_t short_side) {
             const auto& [height, width] = size;
             if (height < 1 || width < 1) throw nb::value_error("a size must be positive");
             return Fit{height, width, method, short_side};
           }),
           "size"_a, "method"_a, "short_side"_a = 0,
           "Args:\n"
           "    size: Height and width of the values.\n"
           "    method: Way to reach it.\n"
           "    short_side: Length of the shorter side of an image that covers more than the\n"
           "        value; 0 for the smallest possible.")
      .def(
          "place",
          [](const Fit& self, std::int64_t height,
             std::int64_t width) -> std::tuple<Part, Size, Position> {
            const Fit::Placement placed = self.place(height, width);
            return {{placed.from_x, placed.from_y, placed.to_x, placed.to_y},
                    {placed.height, placed.width},
                    {placed.top, placed.left}};
          },
          "height"_a, "width"_a,
          "Return the part of an image that is resized (left, top, right, bottom), its size then, "
          "and its position in the value (top, left).");

  nb::class_<ViewRule>(m, "ViewRule", "Which part of each image of a column is used.")
      .def(nb::new_([](const Fit& fit, std::int64_t max_pixels, const std::optional<Box>& crop,
                       const std::optional<ViewRule::Augment>& augment, bool nearest, bool gray,
                       bool shrink) {
             ViewRule rule{fit, {}, augment, max_pixels, nearest, gray, shrink};
             if (crop) {
               const auto& [top, left, height, width] = *crop;
               if (top < 0 || left < 0 || height < 1 || width < 1) {
                 throw nb::value_error("a crop must have pixels");
               }
               rule.crop = Crop{top, left, height, width};
             }
             return rule;
           }),
           "fit"_a, "max_pixels"_a, "crop"_a.none() = nb::none(), "augment"_a.none() = nb::none(),
           nb::kw_only(), "nearest"_a = false, "gray"_a = false, "shrink"_a = false,
           "Args:\n"
           "    fit: How the part becomes a value.\n"
           "    max_pixels: Maximum number of pixels of an image.\n"
           "    crop: Top, left, height and width of what is cut out of every image first.\n"
           "    augment: Random part that is then used.\n"
           "    nearest: Use the nearest pixels when resizing, not their averages.\n"
           "    gray: Images with colors have no view.\n"
           "    shrink: Images may be decoded at a fraction of their size.");
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
  m.attr("MAX_JPEG_SCANS") = kMaxJpegScans;
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
  bind_jitter(m);
  bind_view(m);
  bind_rules(m);
}

}  // namespace tio
