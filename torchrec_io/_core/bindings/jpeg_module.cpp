// The Python module of JPEG decoding. It is a module of its own, so that the core needs no
// libjpeg-turbo.
#include <cstring>

#include "bindings/image_module.h"
#include "image/jpeg_markers.h"
#include "image/view_rule.h"
#include "jpeg/decoder.h"
#include "records/records.h"

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

// Arrays of pixels [n, H, W, C], of any dtype and with any strides.
using PixelArrays = nb::ndarray<nb::ndim<4>, nb::device::cpu>;

// The values of a column that are JPEGs, and the memory of their pixels.
struct ColumnWork {
  std::vector<Bytes> files;
  std::vector<Philox> random;  // empty if nothing is random
  PixelTarget first;           // target of the first file
  std::int64_t file_step = 0;  // values from one target to the next
  const ViewRule* rule = nullptr;
  std::uint32_t max_scans = 0;

  PixelTarget target_of(std::size_t file, const PlacedView& placed) const {
    PixelTarget target = first;
    std::int64_t at = static_cast<std::int64_t>(file) * file_step + placed.top * target.row_step +
                      placed.left * target.column_step;
    if (placed.is_flipped) {
      at += (placed.view.width - 1) * target.column_step;
      target.column_step = -target.column_step;
    }
    target.origin += at * target.value_bytes;
    return target;
  }

  bool decode(std::size_t file, JpegDecoder& decoder, std::string& reason) const {
    constexpr std::uint8_t kSignature[] = {0xff, 0xd8, 0xff};
    const Bytes bytes = files[file];
    if (bytes.size() < 3 || std::memcmp(bytes.data(), kSignature, 3) != 0) return false;
    if (read_jpeg_markers(bytes, max_scans).fault) return false;
    JpegHeader header;
    if (!decoder.open(bytes, header, reason)) return false;
    const auto placed =
        rule->find(header.height, header.width, random.empty() ? Philox(0, 0) : random[file]);
    return placed && decoder.decode(placed->view, target_of(file, *placed), reason);
  }
};

std::vector<Bytes> parts_of(const Records& records, const Numbers& which, const Numbers& offsets,
                            const Numbers& sizes) {
  if (offsets.size() != which.size() || sizes.size() != which.size()) {
    throw nb::value_error("which, offsets and sizes must have the same size");
  }
  std::vector<Bytes> parts;
  parts.reserve(which.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::int64_t record = which.data()[i];
    if (record < 0 || static_cast<std::size_t>(record) >= records.size()) {
      throw nb::index_error("a record does not exist");
    }
    const Bytes all = records[static_cast<std::size_t>(record)];
    if (!is_inside(offsets.data()[i], sizes.data()[i], all.size())) {
      throw nb::value_error("an image must lie in its record");
    }
    parts.push_back(all.subspan(static_cast<std::size_t>(offsets.data()[i]),
                                static_cast<std::size_t>(sizes.data()[i])));
  }
  return parts;
}

std::vector<Philox> generators_of(const nb::bytes& keys, std::size_t count) {
  const Bytes all{static_cast<const std::byte*>(keys.data()), keys.size()};
  if (all.size() != 16 * count) throw nb::value_error("each image must have a key of 16 bytes");
  std::vector<Philox> generators;
  generators.reserve(count);
  for (std::size_t at = 0; at < all.size(); at += 16) {
    generators.emplace_back(load<std::uint64_t>(all, at), load<std::uint64_t>(all, at + 8));
  }
  return generators;
}

std::vector<std::size_t> bind_decode_column(const Records& records, const Numbers& which,
                                            const Numbers& offsets, const Numbers& sizes,
                                            const PixelArrays& targets, const ViewRule& rule,
                                            std::uint32_t max_scans,
                                            const std::optional<nb::bytes>& keys,
                                            const std::optional<Buffer>& tables, bool fast) {
  ColumnWork work{parts_of(records, which, offsets, sizes),
                  {},
                  target_of(targets, rule.fit.height, rule.fit.width, tables ? &*tables : nullptr),
                  targets.stride(0),
                  &rule,
                  max_scans};
  if (targets.shape(0) != work.files.size()) {
    throw nb::value_error("each image must have a target");
  }
  if (rule.augment) {
    if (!keys) throw nb::value_error("a random part needs keys");
    work.random = generators_of(*keys, work.files.size());
  }
  const ReleasedGil unlocked;
  JpegDecoder decoder(fast);
  std::string reason;
  std::vector<std::size_t> left;
  for (std::size_t file = 0; file < work.files.size(); ++file) {
    if (!work.decode(file, decoder, reason)) left.push_back(file);
  }
  return left;
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
  module.def(
      "decode_column", &bind_decode_column, "records"_a, "which"_a, "offsets"_a, "sizes"_a,
      "targets"_a, "rule"_a, "max_scans"_a, "keys"_a.none() = nb::none(),
      "tables"_a.none() = nb::none(), nb::kw_only(), "fast"_a = false,
      "Decode those images of a column that are valid JPEGs.\n\n"
      "Args:\n"
      "    records: Records that hold the images.\n"
      "    which: Position of the record of each image.\n"
      "    offsets: Offset of each image in its record.\n"
      "    sizes: Bytes of each image.\n"
      "    targets: Arrays of the images, `[n, height, width, channels]`, with any strides.\n"
      "    rule: Which part of each image is used. Pixels around it are not written.\n"
      "    max_scans: Most scans that an image may have.\n"
      "    keys: Key of the random numbers of each image; 16 bytes each.\n"
      "    tables: As for `decode_jpegs`.\n"
      "    fast: Use the fast DCT.\n\n"
      "Returns:\n"
      "    The positions of the other images. Their targets may have any content.");
}
