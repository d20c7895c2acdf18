// Random parts of images, with the random numbers and the arithmetic of schema/crops.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "image/philox.h"

namespace tio {

// Rounds halves to even, as Python does.
inline std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

struct Crop {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool is_flipped = false;
};

// A part of random area and shape. `log_ratio` has the logarithms of `ratio`.
struct RandomResizedCrop {
  double scale[2] = {0, 1};
  double ratio[2] = {1, 1};
  double log_ratio[2] = {0, 0};
  double flip = 0;

  Crop operator()(std::int64_t height, std::int64_t width, Philox& random) const;
};

// A part of one size.
struct RandomCrop {
  std::int64_t height = 1;
  std::int64_t width = 1;
  double flip = 0;

  // Throws std::invalid_argument if the image is smaller.
  Crop operator()(std::int64_t height, std::int64_t width, Philox& random) const;
};

// The whole image.
struct RandomFlip {
  double flip = 0;

  Crop operator()(std::int64_t height, std::int64_t width, Philox& random) const;
};

}  // namespace tio
