#include "image/resample.h"

#include <algorithm>
#include <cmath>

#include "image/resample_paths.h"

namespace tio {

ResampleWeights::ResampleWeights(std::int64_t stored, double begin, double end,
                                 std::int64_t resized) {
  const double scale = (end - begin) / static_cast<double>(resized);
  const double filter_scale = std::max(scale, 1.0);  // the filter is not narrower than a pixel
  const double inverse = 1.0 / filter_scale;
  const auto pixels = static_cast<std::size_t>(resized);
  const auto center_of = [begin, scale](std::size_t pixel) {
    return begin + (static_cast<double>(pixel) + 0.5) * scale;
  };
  first_.resize(pixels);
  count_.resize(pixels);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const double center = center_of(pixel);
    const auto first =
        std::max<std::int64_t>(static_cast<std::int64_t>(center - filter_scale + 0.5), 0);
    const auto last =
        std::min<std::int64_t>(static_cast<std::int64_t>(center + filter_scale + 0.5), stored);
    first_[pixel] = first;
    count_[pixel] = last - first;
    most_ = std::max(most_, last - first);
  }
  taps_ = (most_ + kGroup - 1) / kGroup * kGroup;
  weights_.resize(pixels * static_cast<std::size_t>(taps_));
  std::vector<double> exact(static_cast<std::size_t>(most_));
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const auto count = static_cast<std::size_t>(count_[pixel]);
    const double nearest = static_cast<double>(first_[pixel]) - center_of(pixel) + 0.5;
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double distance = std::abs((nearest + static_cast<double>(i)) * inverse);
      exact[i] = std::max(1.0 - distance, 0.0);
      sum += exact[i];
    }
    std::int16_t* const out = &weights_[pixel * static_cast<std::size_t>(taps_)];
    const double unit = (1 << kBits) / sum;
    // Each weight is the difference of rounded sums, so that all of them sum to 1.
    double before = 0.5;
    std::int64_t rounded_before = 0;
    for (std::size_t i = 0; i < count; ++i) {
      before += exact[i] * unit;
      const auto rounded = static_cast<std::int64_t>(before);
      out[i] = static_cast<std::int16_t>(rounded - rounded_before);
      rounded_before = rounded;
    }
  }
}

namespace resample_paths {

void rows_portable(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t count,
                   std::size_t begin, std::size_t size, std::int16_t* out) {
  for (std::size_t i = begin; i < size; ++i) {
    std::int32_t sum = 1 << (kRowShift - 1);
    for (std::int64_t row = 0; row < count; ++row) sum += weights[row] * rows[row][i];
    out[i] = static_cast<std::int16_t>(sum >> kRowShift);
  }
}

void columns_portable(const std::int16_t* row, const ResampleWeights& weights, int channels,
                      std::uint8_t* out) {
  for (std::int64_t pixel = 0; pixel < weights.size(); ++pixel) {
    const std::int16_t* const from = row + (weights.first(pixel) - weights.first(0)) * channels;
    const std::int16_t* const weight = weights.weights(pixel);
    for (int channel = 0; channel < channels; ++channel) {
      std::int32_t sum = 1 << (kColumnShift - 1);
      for (std::int64_t i = 0; i < weights.count(pixel); ++i) {
        sum += weight[i] * from[i * channels + channel];
      }
      *out++ = static_cast<std::uint8_t>(sum >> kColumnShift);
    }
  }
}

}  // namespace resample_paths

#if defined(__x86_64__)
namespace {
bool has_avx2() {
  static const bool supported = __builtin_cpu_supports("avx2") != 0;
  return supported;
}
}  // namespace
#endif

void resample_rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t count,
                   std::size_t size, std::int16_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return resample_paths::rows_avx2(rows, weights, count, size, out);
#endif
  resample_paths::rows_portable(rows, weights, count, 0, size, out);
}

void resample_columns(const std::int16_t* row, const ResampleWeights& weights, int channels,
                      std::uint8_t* out) {
#if defined(__x86_64__)
  if (channels == 4 && has_avx2()) {
    return resample_paths::columns_avx2(row, weights, out);
  }
#endif
  resample_paths::columns_portable(row, weights, channels, out);
}

std::vector<std::int64_t> nearest_pixels(double begin, double end, std::int64_t count) {
  std::vector<std::int64_t> pixels(static_cast<std::size_t>(count));
  const double step = (end - begin) / static_cast<double>(count);
  double at = begin + step * 0.5;
  const auto last = static_cast<std::int64_t>(std::ceil(end)) - 1;
  for (std::int64_t& pixel : pixels) {
    pixel = std::min(static_cast<std::int64_t>(at), last);
    at += step;
  }
  return pixels;
}

}  // namespace tio
