// Decoding of the images of columns, by several threads.
//
// A format is a class with a Decoder, which has a function decode() as JpegDecoder has it, and with
// static functions:
//   make(is_fast)  a new decoder
//   open(decoder, images, image, header, reason)  starts to read an image, as JpegDecoder does
//   admits(bytes)  whether an image may be opened: checks that need no decoder
//   most_pixels(bytes)  more pixels than so many bytes can hold
// and with the constant kHasFractions: whether the decoder can decode at fractions of the size.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/color_jitter.h"
#include "image/philox.h"
#include "image/view.h"
#include "image/view_rule.h"
#include "threads/run_each.h"
#include "wire/bytes.h"

namespace tio {

// Image files in records, or images that are stored as their pixels.
struct StoredImages {
  std::vector<Bytes> files;
  std::vector<ImageHeader> headers;  // of pixels; of files there are none
  Owner records;                     // keeps the memory alive
};

// How the images of a column are used: one view of each.
struct ColumnViews {
  const ViewRule* rule = nullptr;
  std::span<PlacedView> views;         // of each image; those of no size are to be found
  std::vector<Philox> random;          // of each image; empty if nothing is random
  std::span<const SharedCrop> shared;  // crops of other images; empty if there are none

  // Returns whether the image has a view.
  bool find(std::size_t image, const ImageHeader& header) const {
    if (rule->only_gray && header.components != 1) return false;
    PlacedView& view = views[image];
    if (view.image_height > 0) {
      return view.image_height == header.height && view.image_width == header.width;
    }
    const auto found =
        rule->find(header.height, header.width, random.empty() ? Philox(0, 0) : random[image],
                   shared.empty() ? nullptr : &shared[image]);
    if (found) view = *found;
    return found.has_value();
  }
};

// Where the pixels of a column go.
struct ColumnPixels {
  MutableBytes memory;
  std::span<const std::int64_t> offsets;  // of the value of each image
  // Height and width of all values; without, they are those of each view.
  std::optional<std::pair<std::int64_t, std::int64_t>> size;
  bool has_planes = false;  // channels come first
  int channels = 3;
  int value_bytes = 1;
  const std::byte* tables = nullptr;  // as of a PixelTarget

  // Returns the target of a view, or nothing if it does not lie in the memory.
  std::optional<PixelTarget> target_of(std::size_t image, const PlacedView& view) const {
    const auto [height, width] = size.value_or(std::pair(view.height, view.width));
    const std::int64_t bytes = channels * value_bytes;
    const std::int64_t offset = offsets[image];
    const auto end = static_cast<std::int64_t>(memory.size());
    const bool has_room = height > 0 && width > 0 && 0 <= offset && offset < end &&
                          width <= (end - offset) / bytes / height;
    const bool is_inside = 0 <= view.value_top && view.height <= height - view.value_top &&
                           0 <= view.value_left && view.width <= width - view.value_left;
    if (!has_room || !is_inside || view.height < 1 || view.width < 1) return {};
    PixelTarget target{memory.data() + offset,
                       has_planes ? width : width * channels,
                       has_planes ? 1 : channels,
                       has_planes ? height * width : 1,
                       channels,
                       value_bytes,
                       tables};
    std::int64_t at = view.value_top * target.row_step + view.value_left * target.column_step;
    if (view.is_flipped != 0) {
      at += (view.width - 1) * target.column_step;
      target.column_step = -target.column_step;
    }
    target.origin += at * value_bytes;
    return target;
  }
};

// A column of views of images, and where their pixels go.
struct ImageColumn {
  ColumnViews views;
  std::optional<ColorJitter> jitter;
  std::vector<Philox> jitter_random;  // of each image, with `jitter`
  ColumnPixels pixels;
  std::vector<std::uint8_t> is_done;  // of each image: 1 if its pixels are written
  std::vector<Owner> held;            // what keeps the memory alive
};

// Returns the decoder of this thread. It keeps its memory for the next image.
template <class Format>
typename Format::Decoder& thread_decoder(bool is_fast) {
  thread_local std::unique_ptr<typename Format::Decoder> decoders[2];
  auto& decoder = decoders[is_fast ? 1 : 0];
  if (decoder == nullptr) decoder = Format::make(is_fast);
  return *decoder;
}

// Finds the views of those images that the format can decode and whose views are not known. The
// views of others are left as they are, and so are those of images that claim more pixels than
// their bytes can hold, because memory is allocated for views before they are decoded.
template <class Format>
void find_views(const StoredImages& images, const ColumnViews& column, std::size_t threads) {
  run_each(images.files.size(), threads, [&](std::size_t image) {
    const Bytes file = images.files[image];
    if (column.views[image].image_height > 0 || !Format::admits(file)) return;
    ImageHeader header;
    std::string reason;
    auto& decoder = thread_decoder<Format>(false);
    if (!Format::open(decoder, images, image, header, reason)) return;
    const auto pixels = static_cast<std::uint64_t>(header.height * header.width);
    if (pixels < Format::most_pixels(file)) column.find(image, header);
  });
}

// Decodes the images of columns of the same images. Each image is decoded once for all columns that
// have the same scale and kind of pixels. Images that are not decoded are of another format, are
// damaged, or have no view. Returns the time that other threads took.
template <class Format>
std::chrono::nanoseconds decode_columns(const StoredImages& images,
                                        std::span<ImageColumn* const> columns, bool is_fast,
                                        std::size_t threads) {
  return run_each(images.files.size(), threads, [&](std::size_t image) {
    if (!Format::admits(images.files[image])) return;
    auto& decoder = thread_decoder<Format>(is_fast);
    std::string reason;
    ImageHeader header;
    bool is_open = Format::open(decoder, images, image, header, reason);
    std::vector<std::pair<ImageColumn*, ViewTarget>> left;
    for (ImageColumn* column : columns) {
      if (!is_open || column->is_done[image] != 0 || !column->views.find(image, header)) continue;
      const PlacedView& placed = column->views.views[image];
      const auto view = column->views.rule->decoded(placed, Format::kHasFractions);
      const auto target = column->pixels.target_of(image, placed);
      // One outside of the image, by rounding, would fail those of other columns, too.
      if (!view || !view->fits_stored(header.height, header.width) || !target) continue;
      left.push_back({column, {*view, *target}});
    }
    const auto kind_of = [](const ViewTarget& part) {
      return std::pair(part.view.eighths, part.target.channels < 3);
    };
    while (!left.empty()) {
      const auto kind = kind_of(left[0].second);
      const auto others = std::ranges::partition(
          left, [&](const auto& part) { return kind_of(part.second) == kind; });
      std::vector<ViewTarget> parts;
      std::vector<JitterChoice> jitters;
      jitters.reserve(left.size());
      for (auto at = left.begin(); at != others.begin(); ++at) {
        const auto& [column, part] = *at;
        parts.push_back(part);
        if (!column->jitter) continue;
        Philox random = column->jitter_random[image];
        jitters.push_back(column->jitter->choose(random));
        parts.back().jitter = &jitters.back();
      }
      if (!is_open && !Format::open(decoder, images, image, header, reason)) return;
      is_open = false;
      if (!decoder.decode(parts, reason)) return;
      for (auto at = left.begin(); at != others.begin(); ++at) at->first->is_done[image] = 1;
      left.erase(left.begin(), others.begin());
    }
  });
}

}  // namespace tio
