// The functions that each Python module of image decoding has.
#pragma once

#include <string>
#include <tuple>

#include "bindings/arguments.h"
#include "bindings/image_columns.h"
#include "image/view.h"

namespace tio {

// An array of pixels [H, W, C], of uint8 and with any strides.
using PixelArray = nb::ndarray<std::uint8_t, nb::ndim<3>, nb::device::cpu>;

template <class Format>
std::tuple<std::int64_t, std::int64_t, int> bind_read_header(const Buffer& image) {
  ImageHeader header;
  std::string reason;
  if (!thread_decoder<Format>(false).open(bytes_of(image), header, reason)) {
    throw nb::value_error(reason.c_str());
  }
  return {header.height, header.width, header.components};
}

template <class Format>
void bind_decode_image(const Buffer& image, const ImageView& view, const PixelArray& target,
                       bool fast) {
  const auto channels = static_cast<int>(target.shape(2));
  if (static_cast<std::int64_t>(target.shape(0)) != view.height ||
      static_cast<std::int64_t>(target.shape(1)) != view.width || channels < 1 || channels > 4) {
    throw nb::value_error("a target must have the shape [height, width, 1 to 4] of its view");
  }
  const PixelTarget pixels{reinterpret_cast<std::byte*>(target.data()),
                           target.stride(0),
                           target.stride(1),
                           target.stride(2),
                           channels,
                           1,
                           nullptr};
  std::string reason;
  bool is_done = false;
  {
    const ReleasedGil unlocked;
    auto& decoder = thread_decoder<Format>(fast);
    ImageHeader header;
    const ViewTarget part{view, pixels};
    is_done = decoder.open(bytes_of(image), header, reason) && decoder.decode({&part, 1}, reason);
  }
  if (!is_done) throw nb::value_error(reason.c_str());
}

template <class Format>
void bind_find_views(const StoredImages& images, ImageColumn& column, std::size_t threads) {
  check_size(images, column);
  find_views<Format>(images, column.views, threads);
}

template <class Format>
std::int64_t bind_decode_columns(const StoredImages& images, const Sequence<ImageColumn>& columns,
                                 std::size_t threads, bool fast) {
  const Items<ImageColumn*> all(columns);
  for (const ImageColumn* column : all.values()) {
    check_size(images, *column);
    if (column->pixels.offsets.size() != images.files.size()) {
      throw nb::value_error("each image must have a target");
    }
  }
  const ReleasedGil unlocked;
  return decode_columns<Format>(images, all.values(), fast, threads).count();
}

// Adds the functions for single files.
template <class Format>
void bind_files(nb::module_& m) {
  m.def("read_header", &bind_read_header<Format>, "image"_a,
        "Return the height, width and number of components of an image file; uint8 `[size]`.\n\n"
        "Raises:\n"
        "    ValueError: If it cannot be decoded, with the reason.");
  m.def("decode_image", &bind_decode_image<Format>, "image"_a, "view"_a, "target"_a, nb::kw_only(),
        "fast"_a = false,
        "Decode a part of an image file.\n\n"
        "Args:\n"
        "    image: The file; uint8 `[size]`.\n"
        "    view: The part.\n"
        "    target: Array for its pixels; uint8 `[height, width, channels]`, with any strides.\n"
        "    fast: Use the fast DCT.\n\n"
        "Raises:\n"
        "    ValueError: If it cannot be decoded, with the reason.");
}

// Adds the functions for columns.
template <class Format>
void bind_columns(nb::module_& m) {
  m.def("find_views", &bind_find_views<Format>, Unlocked(), "images"_a, "column"_a, "threads"_a,
        "Find those views of a column that are not known, of valid images of this format.");
  m.def("decode_columns", &bind_decode_columns<Format>, "images"_a, "columns"_a, "threads"_a,
        nb::kw_only(), "fast"_a = false,
        "Decode the images of columns, each once, if they are valid and of this format.\n\n"
        "Args:\n"
        "    images: The images of each column.\n"
        "    columns: The columns.\n"
        "    threads: Number of threads, including this one.\n"
        "    fast: Use the fast DCT.\n\n"
        "Returns:\n"
        "    The time that other threads took, in nanoseconds.");
}

}  // namespace tio
