#include "image/random_crop.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tio {
namespace {

constexpr int kMaxTries = 10;

std::int64_t position(std::int64_t size, std::int64_t part, Philox& random) {
  return static_cast<std::int64_t>(random.integers(static_cast<std::uint64_t>(size - part + 1)));
}

// The largest part whose shape is between two ratios of width to height.
Crop largest_part(std::int64_t height, std::int64_t width, const double* ratio) {
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  Crop part{0, 0, height, width};
  if (shape < ratio[0]) {
    part.height = std::max<std::int64_t>(1, rounded(static_cast<double>(width) / ratio[0]));
  } else if (shape > ratio[1]) {
    part.width = std::max<std::int64_t>(1, rounded(static_cast<double>(height) * ratio[1]));
  }
  return part;
}

}  // namespace

Crop RandomResizedCrop::operator()(std::int64_t height, std::int64_t width, Philox& random) const {
  for (int i = 0; i < kMaxTries; ++i) {
    const double area = static_cast<double>(height * width) * random.uniform(scale[0], scale[1]);
    const double shape = std::exp(random.uniform(log_ratio[0], log_ratio[1]));
    Crop crop;
    crop.height = rounded(std::sqrt(area / shape));
    crop.width = rounded(std::sqrt(area * shape));
    if (crop.height < 1 || crop.height > height || crop.width < 1 || crop.width > width) continue;
    crop.top = position(height, crop.height, random);
    crop.left = position(width, crop.width, random);
    crop.is_flipped = random.random() < flip;
    return crop;
  }
  Crop crop = largest_part(height, width, ratio);
  crop.top = (height - crop.height) / 2;
  crop.left = (width - crop.width) / 2;
  crop.is_flipped = random.random() < flip;
  return crop;
}

Crop RandomCrop::operator()(std::int64_t image_height, std::int64_t image_width,
                            Philox& random) const {
  if (image_height < height || image_width < width) {
    throw std::invalid_argument("an image of " + std::to_string(image_height) + " x " +
                                std::to_string(image_width) +
                                " pixels is smaller than the crop of " + std::to_string(height) +
                                " x " + std::to_string(width));
  }
  const std::int64_t top = position(image_height, height, random);
  const std::int64_t left = position(image_width, width, random);
  return {top, left, height, width, random.random() < flip};
}

Crop RandomFlip::operator()(std::int64_t height, std::int64_t width, Philox& random) const {
  return {0, 0, height, width, random.random() < flip};
}

}  // namespace tio
