// What the Python modules of image decoding share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "image/view.h"

namespace tio {

// An array of pixels [H, W, C], of any dtype and with any strides.
using PixelArray = nb::ndarray<nb::ndim<3>, nb::device::cpu>;
using Failures = std::vector<std::pair<std::size_t, std::string>>;

inline std::vector<Bytes> bytes_of_all(const Items<Buffer>& images) {
  std::vector<Bytes> all;
  all.reserve(images.values().size());
  for (const Buffer& image : images.values()) all.push_back(bytes_of(image));
  return all;
}

// Returns the last three axes of an array, [height, width, channels], as a target.
template <class Array>
PixelTarget target_of(const Array& array, std::int64_t height, std::int64_t width,
                      const Buffer* tables) {
  const std::size_t rows = array.ndim() - 3;
  const auto channels = array.shape(rows + 2);
  const auto value_bytes = array.itemsize();
  const auto has_size = [&array](std::size_t axis, std::int64_t size) {
    return static_cast<std::int64_t>(array.shape(axis)) == size;
  };
  if (!has_size(rows, height) || !has_size(rows + 1, width) || channels < 1 || channels > 4) {
    throw nb::value_error("a target must have the shape [height, width, 1 to 4] of its view");
  }
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8) {
    throw nb::value_error("values of a target must have 1, 2, 4 or 8 bytes");
  }
  if (tables == nullptr ? value_bytes != 1 : tables->size() != channels * 256 * value_bytes) {
    throw nb::value_error("tables must have 256 values for each channel of the targets");
  }
  return {static_cast<std::byte*>(array.data()),
          array.stride(rows),
          array.stride(rows + 1),
          array.stride(rows + 2),
          static_cast<int>(channels),
          static_cast<int>(value_bytes),
          tables == nullptr ? nullptr : bytes_of(*tables).data()};
}

// Calls a function with each image, view and target, without the GIL. It returns false with a
// reason if the image cannot be decoded. Returns the positions of these images with the reasons.
template <class Decode>
Failures decode_all(const Sequence<Buffer>& images, const Sequence<ImageView>& views,
                    const Sequence<PixelArray>& targets, const std::optional<Buffer>& tables,
                    const Decode& decode) {
  const Items<Buffer> files(images);
  const Items<const ImageView*> parts(views);
  const Items<PixelArray> arrays(targets);
  const std::vector<Bytes> all = bytes_of_all(files);
  if (parts.values().size() != all.size() || arrays.values().size() != all.size()) {
    throw nb::value_error("images, views and targets must have the same number");
  }
  std::vector<PixelTarget> pixels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ImageView& view = *parts.values()[i];
    pixels.push_back(
        target_of(arrays.values()[i], view.height, view.width, tables ? &*tables : nullptr));
  }
  const ReleasedGil unlocked;
  Failures failures;
  std::string reason;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!decode(all[i], *parts.values()[i], pixels[i], reason)) failures.emplace_back(i, reason);
  }
  return failures;
}

}  // namespace tio
