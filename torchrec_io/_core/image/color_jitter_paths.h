// The arithmetic of color_jitter.h, which is compiled once per instruction set. The paths have the
// same results: every sum of a product is a call of std::fma(), so a compiler has nothing else to
// fuse. x86 processors without AVX2 compute it in a function of the C library, which is slow.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "image/color_jitter.h"

// A function that is compiled for the processor of the function that it is called from.
#define TIO_INLINE [[gnu::always_inline]] inline

namespace tio::jitter_paths {

// Changes of pixels, of which at most the first one is a change of contrast. It needs the mean of
// the gray levels before it.
struct Changes {
  const ColorChange* order;
  const double* factors;
  std::size_t count;
  float mean;
};

void change_portable(const Changes& changes, std::uint8_t* pixels, std::size_t count, int channels);
std::uint64_t sum_gray_portable(const std::uint8_t* pixels, std::size_t count, int channels);

#if defined(__x86_64__)
void change_avx2(const Changes& changes, std::uint8_t* pixels, std::size_t count, int channels);
std::uint64_t sum_gray_avx2(const std::uint8_t* pixels, std::size_t count, int channels);
void change_avx512(const Changes& changes, std::uint8_t* pixels, std::size_t count, int channels);
std::uint64_t sum_gray_avx512(const std::uint8_t* pixels, std::size_t count, int channels);
#endif

struct Path {
  decltype(&change_portable) change;
  decltype(&sum_gray_portable) sum_gray;
};

// The paths that this processor has, the fastest one first.
const std::vector<Path>& paths();

// Makes a choice on one of the paths.
void apply(const Path& path, const JitterChoice& choice, std::uint8_t* pixels, std::size_t count,
           int channels);

// The levels of some pixels. Loops over all of them, of a fixed number, become vector instructions.
struct Levels {
  static constexpr std::size_t kSize = 256;

  alignas(64) std::int32_t red[kSize];
  alignas(64) std::int32_t green[kSize];
  alignas(64) std::int32_t blue[kSize];
};

TIO_INLINE void load_levels(const std::uint8_t* pixels, std::size_t count, int channels,
                            Levels& levels) {
  if (count < Levels::kSize) levels = {};
  if (channels == 4) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word;
      std::memcpy(&word, pixels + i * 4, 4);
      levels.red[i] = static_cast<std::int32_t>(word & 0xFF);
      levels.green[i] = static_cast<std::int32_t>(word >> 8 & 0xFF);
      levels.blue[i] = static_cast<std::int32_t>(word >> 16 & 0xFF);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      levels.red[i] = pixels[i * 3];
      levels.green[i] = pixels[i * 3 + 1];
      levels.blue[i] = pixels[i * 3 + 2];
    }
  }
}

TIO_INLINE void store_levels(const Levels& levels, std::uint8_t* pixels, std::size_t count,
                             int channels) {
  if (channels == 4) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word;
      std::memcpy(&word, pixels + i * 4, 4);
      word = (word & 0xFF000000U) | static_cast<std::uint32_t>(levels.red[i]) |
             static_cast<std::uint32_t>(levels.green[i]) << 8 |
             static_cast<std::uint32_t>(levels.blue[i]) << 16;
      std::memcpy(pixels + i * 4, &word, 4);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      pixels[i * 3] = static_cast<std::uint8_t>(levels.red[i]);
      pixels[i * 3 + 1] = static_cast<std::uint8_t>(levels.green[i]);
      pixels[i * 3 + 2] = static_cast<std::uint8_t>(levels.blue[i]);
    }
  }
}

TIO_INLINE std::int32_t clamp(std::int32_t level, std::int32_t least, std::int32_t most) {
  const std::int32_t low = level > least ? level : least;
  return low < most ? low : most;
}

// Rounds to a level, towards zero. kMostFactor keeps the value in 32 bits.
TIO_INLINE std::int32_t to_level(float value) {
  return clamp(static_cast<std::int32_t>(value), 0, 255);
}

TIO_INLINE std::int32_t gray_of(std::int32_t red, std::int32_t green, std::int32_t blue) {
  const float part = static_cast<float>(red) * 0.2989F;
  return static_cast<std::int32_t>(std::fma(static_cast<float>(blue), 0.114F,
                                            std::fma(static_cast<float>(green), 0.587F, part)));
}

TIO_INLINE void brighten(float factor, Levels& levels) {
  for (auto* channel : {levels.red, levels.green, levels.blue}) {
    for (std::size_t i = 0; i < Levels::kSize; ++i) {
      channel[i] = to_level(static_cast<float>(channel[i]) * factor);
    }
  }
}

// Mixes levels with one other level.
TIO_INLINE std::int32_t blend(std::int32_t level, float other, float factor, float rest) {
  return to_level(std::fma(other, rest, static_cast<float>(level) * factor));
}

TIO_INLINE void change_contrast(float factor, float rest, float mean, Levels& levels) {
  for (auto* channel : {levels.red, levels.green, levels.blue}) {
    for (std::size_t i = 0; i < Levels::kSize; ++i) {
      channel[i] = blend(channel[i], mean, factor, rest);
    }
  }
}

TIO_INLINE void saturate(float factor, float rest, Levels& levels) {
  for (std::size_t i = 0; i < Levels::kSize; ++i) {
    const auto gray = static_cast<float>(gray_of(levels.red[i], levels.green[i], levels.blue[i]));
    levels.red[i] = blend(levels.red[i], gray, factor, rest);
    levels.green[i] = blend(levels.green[i], gray, factor, rest);
    levels.blue[i] = blend(levels.blue[i], gray, factor, rest);
  }
}

// Turns the hue by a part of the circle, and keeps the largest and the smallest level. It is the
// way of torchvision through HSV in fewer operations on floats, so a level may differ by one.
//
// With the hue in sixths of the circle, red is the largest color around 0, green around 2, and blue
// around 4. Away from there it falls from the largest level to the smallest one between 1 and 2.
TIO_INLINE void turn_hue(double factor, Levels& levels) {
  constexpr float kScale = 255.999F / 255;  // as torchvision rounds
  const auto turn = static_cast<float>(6 * (factor < 0 ? factor + 1 : factor) + 1);
  for (std::size_t i = 0; i < Levels::kSize; ++i) {
    const std::int32_t red = levels.red[i];
    const std::int32_t green = levels.green[i];
    const std::int32_t blue = levels.blue[i];
    const std::int32_t larger = red > green ? red : green;
    const std::int32_t largest = larger > blue ? larger : blue;
    const std::int32_t smaller = red < green ? red : green;
    const std::int32_t smallest = smaller < blue ? smaller : blue;
    const std::int32_t range = largest - smallest;
    const bool is_red = red == largest;
    const bool is_green = green == largest;
    const std::int32_t not_red = is_green ? blue - red : red - green;
    const std::int32_t side = is_red ? green - blue : not_red;
    const std::int32_t start = is_red ? 0 : is_green ? 2 : 4;
    // The turned hue and 1, from 0 to 12, then to 6.
    const float ahead = static_cast<float>(side) / static_cast<float>(range > 0 ? range : 1) +
                        (static_cast<float>(start) + turn);
    const float wrap = ahead >= 6 ? -6.0F : 0.0F;
    const float hue = ahead + wrap;
    const float slope = static_cast<float>(range) * kScale;
    const float low = std::fma(static_cast<float>(smallest), kScale, -slope);
    const float high = std::fma(3.0F, slope, low);
    const auto turned = [&](float base, float sign, float middle) {
      const float level = std::fma(std::fabs(hue - middle), sign * slope, base);
      return clamp(static_cast<std::int32_t>(level), smallest, largest);
    };
    levels.red[i] = turned(low, 1, 4);
    levels.green[i] = turned(high, -1, 3);
    levels.blue[i] = turned(low, 1, 2);
  }
}

TIO_INLINE void change(const Changes& changes, std::uint8_t* pixels, std::size_t count,
                       int channels) {
  Levels levels;
  for (std::size_t at = 0; at < count; at += Levels::kSize) {
    const std::size_t size = count - at < Levels::kSize ? count - at : Levels::kSize;
    std::uint8_t* part = pixels + at * static_cast<std::size_t>(channels);
    load_levels(part, size, channels, levels);
    for (std::size_t i = 0; i < changes.count; ++i) {
      const auto factor = static_cast<float>(changes.factors[i]);
      const auto rest = static_cast<float>(1.0 - changes.factors[i]);
      switch (changes.order[i]) {
        case ColorChange::brightness: brighten(factor, levels); break;
        case ColorChange::contrast: change_contrast(factor, rest, changes.mean, levels); break;
        case ColorChange::saturation: saturate(factor, rest, levels); break;
        case ColorChange::hue: turn_hue(changes.factors[i], levels); break;
      }
    }
    store_levels(levels, part, size, channels);
  }
}

TIO_INLINE std::uint64_t sum_gray(const std::uint8_t* pixels, std::size_t count, int channels) {
  Levels levels;
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < count; at += Levels::kSize) {
    const std::size_t size = count - at < Levels::kSize ? count - at : Levels::kSize;
    load_levels(pixels + at * static_cast<std::size_t>(channels), size, channels, levels);
    std::int32_t part = 0;
    for (std::size_t i = 0; i < Levels::kSize; ++i) {
      part += gray_of(levels.red[i], levels.green[i], levels.blue[i]);
    }
    sum += static_cast<std::uint64_t>(part);
  }
  return sum;
}

}  // namespace tio::jitter_paths
