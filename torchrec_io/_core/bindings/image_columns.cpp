// Columns of images, which the modules of image decoding fill.
#include "bindings/image_columns.h"

#include <nanobind/stl/shared_ptr.h>

#include "bindings/image_format.h"
#include "image/raw_pixels.h"
#include "records/records.h"

namespace tio {
namespace {

StoredImages images_of(nb::handle_t<Records> held, const Numbers& which, const Numbers& offsets,
                       const Numbers& sizes, const std::optional<Matrix<std::int64_t>>& shapes) {
  const Records& records = *nb::cast<const Records*>(held);
  if (offsets.size() != which.size() || sizes.size() != which.size()) {
    throw nb::value_error("which, offsets and sizes must have the same size");
  }
  StoredImages images{{}, {}, share(held)};
  if (shapes && (shapes->shape(0) != which.size() || shapes->shape(1) != 3)) {
    throw nb::value_error("each image must have a height, a width and a number of channels");
  }
  for (std::size_t i = 0; shapes && i < which.size(); ++i) {
    const std::int64_t* const shape = shapes->data() + 3 * i;
    images.headers.push_back({shape[0], shape[1], static_cast<int>(shape[2])});
  }
  images.files.reserve(which.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::int64_t record = which.data()[i];
    if (record < 0 || static_cast<std::size_t>(record) >= records.size()) {
      throw nb::index_error("a record does not exist");
    }
    const Bytes all = records[static_cast<std::size_t>(record)];
    if (!is_inside(offsets.data()[i], sizes.data()[i], all.size())) {
      throw nb::value_error("an image must lie in its record");
    }
    images.files.push_back(all.subspan(static_cast<std::size_t>(offsets.data()[i]),
                                       static_cast<std::size_t>(sizes.data()[i])));
  }
  return images;
}

// Returns the rows of an array of bytes.
template <class Row, class Data>
std::span<Row> rows_of(Data* data, std::size_t size) {
  static_assert(sizeof(Row) % 8 == 0);
  if (size % sizeof(Row) != 0 || reinterpret_cast<std::uintptr_t>(data) % 8 != 0) {
    throw nb::value_error("a table must have whole rows, aligned to 8 bytes");
  }
  return {reinterpret_cast<Row*>(data), size / sizeof(Row)};
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

ImageColumn column_of(nb::handle_t<ViewRule> rule, const WritableBuffer& views,
                      const std::optional<nb::bytes>& keys, const std::optional<Buffer>& shared) {
  ImageColumn column;
  const auto held = share(rule);
  column.views.rule = held.get();
  column.views.views = rows_of<PlacedView>(views.data(), views.size());
  column.held = {held, owner_of(views)};
  const std::size_t count = column.views.views.size();
  column.is_done.resize(count);
  if (shared) {
    column.views.shared = rows_of<const SharedCrop>(shared->data(), shared->size());
    column.held.push_back(owner_of(*shared));
    if (column.views.shared.size() != count) throw nb::value_error("each image must have a crop");
  } else if (column.views.rule->augment) {
    if (!keys) throw nb::value_error("a random part needs keys");
    column.views.random = generators_of(*keys, count);
  }
  return column;
}

using Size = std::tuple<std::int64_t, std::int64_t>;

void set_pixels(ImageColumn& column, const WritableBuffer& memory, const Numbers& offsets,
                const std::optional<Size>& size, bool has_planes, int channels, int value_bytes,
                const std::optional<Buffer>& tables) {
  if (channels < 1 || channels > 4) throw nb::value_error("channels must be 1 to 4");
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8) {
    throw nb::value_error("values of a target must have 1, 2, 4 or 8 bytes");
  }
  const auto table_bytes = static_cast<std::size_t>(channels * 256 * value_bytes);
  if (tables ? tables->size() != table_bytes : value_bytes != 1) {
    throw nb::value_error("tables must have 256 values for each channel of the targets");
  }
  column.pixels = {writable_bytes(memory),
                   span_of(offsets),
                   {},
                   has_planes,
                   channels,
                   value_bytes,
                   tables ? bytes_of(*tables).data() : nullptr};
  if (size) column.pixels.size = {std::get<0>(*size), std::get<1>(*size)};
  column.held.push_back(owner_of(memory));
  column.held.push_back(owner_of(offsets));
  if (tables) column.held.push_back(owner_of(*tables));
}

void set_jitter(ImageColumn& column, const ColorJitter& jitter, const nb::bytes& keys) {
  column.jitter_random = generators_of(keys, column.is_done.size());
  column.jitter = jitter;
}

std::vector<std::size_t> missing(const ImageColumn& column) {
  std::vector<std::size_t> images;
  for (std::size_t i = 0; i < column.is_done.size(); ++i) {
    if (column.is_done[i] == 0) images.push_back(i);
  }
  return images;
}

// Pixels.
struct Raw {
  using Decoder = RawPixels;
  static constexpr bool kHasFractions = false;
  static std::unique_ptr<RawPixels> make(bool) { return std::make_unique<RawPixels>(); }
  static bool open(Decoder& decoder, const StoredImages& images, std::size_t image,
                   ImageHeader& header, std::string& reason) {
    if (images.headers.empty()) return false;
    header = images.headers[image];
    return decoder.open(images.files[image], header, reason);
  }
  static bool admits(Bytes) { return true; }
  static std::uint64_t most_pixels(Bytes image) { return image.size() + 1; }
};

}  // namespace

void bind_image_columns(nb::module_& m) {
  nb::class_<StoredImages>(m, "StoredImages", "Image files in records.")
      .def(nb::new_(&images_of), "records"_a, "which"_a, "offsets"_a, "sizes"_a,
           "shapes"_a.none() = nb::none(),
           "Args:\n"
           "    records: Records that hold the images.\n"
           "    which: Position of the record of each image.\n"
           "    offsets: Offset of each image in its record.\n"
           "    sizes: Bytes of each image.\n"
           "    shapes: Height, width and number of channels of each image that is stored as its\n"
           "        pixels; None for image files.");
  nb::class_<ImageColumn>(m, "ImageColumn", "A view of each image, and where its pixels go.")
      .def(nb::new_(&column_of), "rule"_a, "views"_a, "keys"_a.none() = nb::none(),
           "shared"_a.none() = nb::none(),
           "Args:\n"
           "    rule: Which part of each image is used.\n"
           "    views: Rows of _images/views.py, as bytes; those of unknown size are to be found.\n"
           "    keys: Key of the random numbers of each image; 16 bytes each.\n"
           "    shared: Crops of other images that are used instead, of each image seven int64: "
           "the\n"
           "        height and width of the other image, top, left, height and width of the crop,\n"
           "        and whether it is mirrored; as bytes.")
      .def(
          "set_pixels", &set_pixels, "memory"_a, "offsets"_a, "size"_a.none(), "has_planes"_a,
          "channels"_a, "value_bytes"_a, "tables"_a.none(),
          "Set the memory of the pixels.\n\n"
          "Args:\n"
          "    memory: The memory.\n"
          "    offsets: Offset of each value in it, in bytes.\n"
          "    size: Height and width of all values; None for those of each view. Pixels around a\n"
          "        view are not written.\n"
          "    has_planes: Whether the channels of a value come first.\n"
          "    channels: Number of channels, 1 to 4.\n"
          "    value_bytes: Bytes of a value: 1, 2, 4 or 8.\n"
          "    tables: Values to write for the levels 0 to 255 of each channel, as bytes; None "
          "for\n"
          "        the levels, one byte each.")
      .def("set_jitter", &set_jitter, "jitter"_a, "keys"_a,
           "Change the colors of the images, each with a key of 16 bytes for its random numbers.")
      .def("missing", &missing, "Return the positions of the images that were not decoded.");
  bind_columns<Raw>(m);
}

}  // namespace tio
