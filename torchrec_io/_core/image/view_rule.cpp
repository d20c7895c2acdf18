#include "image/view_rule.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tio {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

Fit::Placement Fit::place(std::int64_t image_height, std::int64_t image_width) const {
  Placement placed{0, 0, real(image_width), real(image_height), height, width, 0, 0};
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

std::optional<Crop> ViewRule::choose(std::int64_t height, std::int64_t width,
                                     Philox& random) const {
  Crop part{0, 0, height, width};
  if (crop) {
    if (crop->height > height - crop->top || crop->width > width - crop->left) return {};
    part = *crop;
  }
  if (!augment) return part;
  Crop chosen;
  try {
    chosen = std::visit([&](const auto& rule) { return rule(part.height, part.width, random); },
                        *augment);
  } catch (const std::invalid_argument&) {  // the image is too small
    return {};
  }
  chosen.top += part.top;
  chosen.left += part.left;
  return chosen;
}

std::optional<PlacedView> ViewRule::find(std::int64_t height, std::int64_t width,
                                         Philox random) const {
  if (height > max_pixels / width) return {};
  const std::optional<Crop> part = choose(height, width, random);
  if (!part) return {};
  const bool has_size = part->height == fit.height && part->width == fit.width;
  if (fit.method == Fit::Method::none && !has_size) return {};
  const Fit::Placement placed = fit.place(part->height, part->width);
  const ImageView view{part->left,
                       part->top,
                       part->left + part->width,
                       part->top + part->height,
                       placed.from_x,
                       placed.from_y,
                       placed.to_x,
                       placed.to_y,
                       placed.height,
                       placed.width};
  if (view.shrinks_much()) return {};
  return PlacedView{view, placed.top, placed.left, part->is_flipped};
}

}  // namespace tio
