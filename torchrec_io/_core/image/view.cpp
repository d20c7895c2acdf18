#include "image/view.h"

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

}  // namespace tio
