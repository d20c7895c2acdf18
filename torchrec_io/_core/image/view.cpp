#include "image/view.h"

#include <algorithm>

namespace tio {

bool ImageView::fits(std::int64_t image_height, std::int64_t image_width) const {
  const bool is_box = 0 <= left && left < right && right <= image_width && 0 <= top &&
                      top < bottom && bottom <= image_height;
  // Comparisons with NaN are false.
  return is_box && 0 <= from_x && from_x < to_x && to_x <= static_cast<double>(right - left) &&
         0 <= from_y && from_y < to_y && to_y <= static_cast<double>(bottom - top) && height > 0 &&
         width > 0;
}

bool ImageView::is_resized() const {
  return from_x != 0 || from_y != 0 || to_x != static_cast<double>(right - left) ||
         to_y != static_cast<double>(bottom - top) || width != right - left ||
         height != bottom - top;
}

bool ImageView::shrinks_much() const {
  constexpr double kMostShrinkage = 32;
  return to_x - from_x > kMostShrinkage * static_cast<double>(width) ||
         to_y - from_y > kMostShrinkage * static_cast<double>(height);
}

ImageView ImageView::shrunk(std::int64_t image_height, std::int64_t image_width) const {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  for (const int scaled : {1, 2, 4}) {
    if ((to_y - from_y) * scaled < 8 * real(height)) continue;
    if ((to_x - from_x) * scaled < 8 * real(width)) continue;
    const double scale = scaled / 8.0;
    const std::int64_t rows = (image_height * scaled + 7) / 8;
    const std::int64_t columns = (image_width * scaled + 7) / 8;
    return {0,
            0,
            columns,
            rows,
            (real(left) + from_x) * scale,
            (real(top) + from_y) * scale,
            std::min((real(left) + to_x) * scale, real(columns)),
            std::min((real(top) + to_y) * scale, real(rows)),
            height,
            width,
            scaled,
            is_nearest};
  }
  return *this;
}

}  // namespace tio
