#include "image/color_jitter_paths.h"

namespace tio::jitter_paths {

void change_portable(const Changes& changes, std::uint8_t* pixels, std::size_t count,
                     int channels) {
  change(changes, pixels, count, channels);
}

std::uint64_t sum_gray_portable(const std::uint8_t* pixels, std::size_t count, int channels) {
  return sum_gray(pixels, count, channels);
}

}  // namespace tio::jitter_paths
