#include "image/view_rule.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace tio {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

Fit::Placement Fit::place(std::int64_t image_height, std::int64_t image_width) const {
  Placement placed{0, 0, real(image_width), real(image_height), height, width, 0, 0};
  if (method == Method::whole) {
    placed.height = image_height;
    placed.width = image_width;
  }
  if (method == Method::cover && short_side > 0) {
    take_center(placed, image_height, image_width);
  } else if (method == Method::cover) {
    cover(placed, real(image_height), real(image_width));
  } else if (method == Method::contain) {
    contain(placed, real(image_height), real(image_width));
  }
  return placed;
}

// Uses the central part with the shape of the value, as ImageOps.fit does.
void Fit::cover(Placement& placed, double image_height, double image_width) const {
  const double ratio = real(width) / real(height);
  double part_height = image_height;
  double part_width = image_width;
  if (image_width / image_height >= ratio) {
    part_width = ratio * image_height;
  } else {
    part_height = image_width / ratio;
  }
  placed.from_x = (image_width - part_width) * 0.5;
  placed.from_y = (image_height - part_height) * 0.5;
  placed.to_x = placed.from_x + part_width;
  placed.to_y = placed.from_y + part_height;
}

// Uses what is the center of the image after its shorter side was resized, as Resize and CenterCrop
// do.
void Fit::take_center(Placement& placed, std::int64_t image_height,
                      std::int64_t image_width) const {
  const auto longer = [this](std::int64_t side, std::int64_t other) {
    return std::floor(real(short_side) * real(side) / real(other));
  };
  const bool is_wide = image_height <= image_width;
  const double rows = is_wide ? real(short_side) : longer(image_height, image_width);
  const double columns = is_wide ? longer(image_width, image_height) : real(short_side);
  const double top = std::nearbyint((rows - real(height)) / 2.0);
  const double left = std::nearbyint((columns - real(width)) / 2.0);
  const double down = real(image_height) / rows;
  const double across = real(image_width) / columns;
  placed.from_x = left * across;
  placed.from_y = top * down;
  placed.to_x = (left + real(width)) * across;
  placed.to_y = (top + real(height)) * down;
}

// Uses the whole image, as large as it can be, as ImageOps.pad does.
void Fit::contain(Placement& placed, double image_height, double image_width) const {
  const double shape = image_width / image_height;
  const double wanted = real(width) / real(height);
  if (shape > wanted) {
    placed.height = std::max<std::int64_t>(1, rounded(image_height / image_width * real(width)));
  } else if (shape < wanted) {
    placed.width = std::max<std::int64_t>(1, rounded(image_width / image_height * real(height)));
  }
  placed.top = rounded(real(height - placed.height) * 0.5);
  placed.left = rounded(real(width - placed.width) * 0.5);
}

Crop SharedCrop::of_size(std::int64_t image_height, std::int64_t image_width) const {
  if (image_height == height && image_width == width) {
    return {top, left, crop_height, crop_width, is_flipped != 0};
  }
  const auto scaled = [](std::int64_t start, std::int64_t count, std::int64_t other,
                         std::int64_t size) -> std::pair<std::int64_t, std::int64_t> {
    const double scale = real(size) / real(other);
    const std::int64_t first = std::min(rounded(real(start) * scale), size - 1);
    const std::int64_t end = std::min(rounded(real(start + count) * scale), size);
    return {first, std::max<std::int64_t>(1, end - first)};
  };
  const auto [first_row, rows] = scaled(top, crop_height, height, image_height);
  const auto [first_column, columns] = scaled(left, crop_width, width, image_width);
  return {first_row, first_column, rows, columns, is_flipped != 0};
}

std::optional<Crop> ViewRule::choose(std::int64_t height, std::int64_t width, Philox& random,
                                     const SharedCrop* shared) const {
  Crop part{0, 0, height, width};
  if (crop) {
    if (crop->height > height - crop->top || crop->width > width - crop->left) return {};
    part = *crop;
  }
  if (!augment && shared == nullptr) return part;
  Crop chosen;
  if (shared != nullptr) {
    chosen = shared->of_size(part.height, part.width);
  } else {
    try {
      chosen = std::visit([&](const auto& rule) { return rule(part.height, part.width, random); },
                          *augment);
    } catch (const std::invalid_argument&) {  // the image is too small
      return {};
    }
  }
  chosen.top += part.top;
  chosen.left += part.left;
  return chosen;
}

std::optional<PlacedView> ViewRule::find(std::int64_t height, std::int64_t width, Philox random,
                                         const SharedCrop* shared) const {
  if (height > max_pixels / width) return {};
  if (shared != nullptr && (shared->height < 1 || shared->width < 1)) return {};
  const std::optional<Crop> part = choose(height, width, random, shared);
  if (!part) return {};
  const bool has_size = part->height == fit.height && part->width == fit.width;
  if (fit.method == Fit::Method::none && !has_size) return {};
  const Fit::Placement to = fit.place(part->height, part->width);
  const PlacedView placed{height,
                          width,
                          part->left,
                          part->top,
                          part->left + part->width,
                          part->top + part->height,
                          to.from_x,
                          to.from_y,
                          to.to_x,
                          to.to_y,
                          to.height,
                          to.width,
                          to.top,
                          to.left,
                          part->is_flipped ? 1 : 0};
  if (!decoded(placed)) return {};
  return placed;
}

std::optional<ImageView> ViewRule::decoded(const PlacedView& placed, bool has_fractions) const {
  const ImageView view{placed.left,
                       placed.top,
                       placed.right,
                       placed.bottom,
                       placed.from_x,
                       placed.from_y,
                       placed.to_x,
                       placed.to_y,
                       placed.height,
                       placed.width,
                       8,
                       is_nearest};
  if (may_shrink && has_fractions) return view.shrunk(placed.image_height, placed.image_width);
  if (!is_nearest && view.shrinks_much()) return {};
  return view;
}

}  // namespace tio
