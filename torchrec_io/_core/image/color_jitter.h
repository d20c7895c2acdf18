// Random changes of the colors of images: brightness, contrast, saturation and hue, with the pixels
// of torchvision.transforms.v2.ColorJitter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "image/philox.h"

namespace tio {

enum class ColorChange : std::uint8_t { brightness, contrast, saturation, hue };

// The changes of one image, in the order in which they are made.
struct JitterChoice {
  std::array<ColorChange, 4> order{};
  std::array<double, 4> factors{};  // of the changes in `order`
  std::size_t count = 0;
};

// The ranges of the factors, by ColorChange: from 0 to kMostFactor, and for the hue from -0.5 to
// 0.5. A range of the one number that changes nothing, 1 or for the hue 0, leaves the change out.
struct ColorJitter {
  static constexpr double kMostFactor = 1e6;
  using Range = std::array<double, 2>;

  std::array<Range, 4> ranges = {{{1, 1}, {1, 1}, {1, 1}, {0, 0}}};
  double probability = 1;  // that an image is changed

  // Takes random numbers in this order: one in [0, 1), which is compared with the probability; if
  // the image is changed, the integers below 4, 3 and 2 of a Fisher-Yates shuffle of the four
  // changes, from the last place to the second one; and the factor of each change that is not left
  // out, in the order of ColorChange.
  JitterChoice choose(Philox& random) const;
};

// Changes the colors of pixels in place. A pixel has 3 or 4 levels; the fourth one is kept.
//
// The levels are those of torchvision's functions for uint8 Tensors, where PyTorch fuses products
// and sums, as on x86 processors with AVX2. Each change rounds down to whole levels. Two of them
// may differ from torchvision by one level: the hue, which is computed in fewer operations, and the
// contrast of more than 65,793 pixels (2^24 / 255), because PyTorch sums their gray levels as
// floats. Here the sum is exact.
void apply(const JitterChoice& choice, std::uint8_t* pixels, std::size_t count, int channels = 4);

}  // namespace tio
