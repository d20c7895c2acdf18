// Which part of each image of a column is used, and how it fits into a value of one size.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "image/random_crop.h"
#include "image/view.h"

namespace tio {

// How images become values of one size.
struct Fit {
  enum class Method : std::uint8_t {
    none,     // images must have the size
    stretch,  // height and width are resized, each by its own ratio
    cover,    // the image fills the size; what extends past it is cut off
    contain,  // the whole image is visible, and something is left around it
    whole,    // the value has the size of the image
  };

  // The part of an image that is resized, its size then, and its position in the value.
  struct Placement {
    double from_x = 0;
    double from_y = 0;
    double to_x = 0;
    double to_y = 0;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t top = 0;
    std::int64_t left = 0;
  };

  std::int64_t height = 1;
  std::int64_t width = 1;
  Method method = Method::stretch;
  // With `cover`: length of the shorter side of the resized image, whose center is used. 0 is the
  // smallest possible.
  std::int64_t short_side = 0;

  // Positions are rounded as in Pillow's ImageOps, or with a shorter side as in torchvision.
  Placement place(std::int64_t image_height, std::int64_t image_width) const;

 private:
  void cover(Placement& placed, double image_height, double image_width) const;
  void take_center(Placement& placed, std::int64_t image_height, std::int64_t image_width) const;
  void contain(Placement& placed, double image_height, double image_width) const;
};

// A view, the image that it is a part of, and where its pixels go in the value. It is a row of the
// tables of _images/views.py, which have the same fields.
struct PlacedView {
  std::int64_t image_height = 0;  // 0: there is no view
  std::int64_t image_width = 0;
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
  double from_x = 0;
  double from_y = 0;
  double to_x = 0;
  double to_y = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t value_top = 0;
  std::int64_t value_left = 0;
  std::int64_t is_flipped = 0;
};

// The crop that was chosen for another image of a record, of a size.
struct SharedCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t crop_height = 0;
  std::int64_t crop_width = 0;
  std::int64_t is_flipped = 0;

  // Returns the crop of an image of another size: scaled, rounded to whole pixels, and of at least
  // one pixel.
  Crop of_size(std::int64_t image_height, std::int64_t image_width) const;
};

struct ViewRule {
  using Augment = std::variant<RandomResizedCrop, RandomCrop, RandomFlip>;

  Fit fit;
  std::optional<Crop> crop;        // cut out of every image first
  std::optional<Augment> augment;  // then a random part
  std::int64_t max_pixels = 0;
  bool is_nearest = false;  // pixels are not averaged
  bool only_gray = false;   // images with colors have no view
  bool may_shrink = false;  // images may be decoded at a fraction of their size, if they can be

  // Returns the view of an image. There is none if the image is too large, too small for a crop,
  // or shrinks so much that native resizing is not exact enough. With `shared`, the random part is
  // the one of another image.
  std::optional<PlacedView> find(std::int64_t height, std::int64_t width, Philox random,
                                 const SharedCrop* shared = nullptr) const;

  // Returns how a view is decoded, with images of a format that can be decoded at a fraction of
  // their size, or of another one. There is none if native resizing is not exact enough.
  std::optional<ImageView> decoded(const PlacedView& placed, bool has_fractions = true) const;

 private:
  std::optional<Crop> choose(std::int64_t height, std::int64_t width, Philox& random,
                             const SharedCrop* shared) const;
};

}  // namespace tio
