// Resizing: the weights, and every path compared with sums of floating-point numbers.
#include <cmath>
#include <random>

#include "check.h"
#include "image/resample.h"
#include "image/resample_paths.h"

namespace tio::test {
namespace {

void test_weights_sum_to_one() {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto stored = static_cast<std::int64_t>(1 + random() % 300);
    const auto resized = static_cast<std::int64_t>(1 + random() % 300);
    std::uniform_real_distribution<double> inside(0, static_cast<double>(stored));
    double begin = round % 2 == 0 ? 0 : inside(random);
    double end = round % 2 == 0 ? static_cast<double>(stored) : inside(random);
    if (begin > end) std::swap(begin, end);
    if (begin == end) continue;
    const ResampleWeights weights(stored, begin, end, resized);
    CHECK_EQ(weights.size(), resized);
    for (std::int64_t pixel = 0; pixel < resized; ++pixel) {
      CHECK(weights.first(pixel) >= 0 && weights.count(pixel) >= 1);
      CHECK(weights.first(pixel) + weights.count(pixel) <= stored);
      CHECK(weights.count(pixel) <= weights.most() && weights.most() <= weights.taps());
      CHECK(pixel == 0 || weights.first(pixel) >= weights.first(pixel - 1));
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < weights.taps(); ++i) {
        CHECK(weights.weights(pixel)[i] >= 0);
        CHECK(i < weights.count(pixel) || weights.weights(pixel)[i] == 0);
        sum += weights.weights(pixel)[i];
      }
      CHECK_EQ(sum, std::int64_t{1} << ResampleWeights::kBits);
    }
  }
}

// Memory that has exactly its size, so that a sanitizer finds a read past its end.
template <class T>
std::vector<T> random_values(std::mt19937_64& random, std::size_t size, unsigned limit) {
  std::vector<T> values(size);
  for (T& value : values) value = static_cast<T>(random() % limit);
  return values;
}

void test_paths_agree() {
  std::mt19937_64 random(7);
  for (int round = 0; round < 1500; ++round) {
    const int channels = round % 3 == 0 ? 1 : 4;
    const auto width = static_cast<std::int64_t>(1 + random() % 90);
    const auto height = static_cast<std::int64_t>(1 + random() % 60);
    const auto columns = static_cast<std::int64_t>(1 + random() % 90);
    const ResampleWeights down(height, 0, static_cast<double>(height), 1);
    const ResampleWeights across(width, 0, static_cast<double>(width), columns);
    const auto size = static_cast<std::size_t>(width * channels);
    std::vector<std::vector<std::uint8_t>> image;
    std::vector<const std::uint8_t*> rows;
    for (std::int64_t row = 0; row < down.count(0); ++row) {
      image.push_back(random_values<std::uint8_t>(random, size, round % 5 == 0 ? 1 : 256));
    }
    for (const auto& row : image) rows.push_back(row.data());

    const std::size_t padded = size + static_cast<std::size_t>(across.taps() * channels);
    std::vector<std::int16_t> summed(padded);
    std::vector<std::int16_t> expected(padded);
    resample_rows(rows.data(), down.weights(0), down.count(0), size, summed.data());
    resample_paths::rows_portable(rows.data(), down.weights(0), down.count(0), 0, size,
                                  expected.data());
    CHECK_EQ(summed, expected);
    for (std::size_t i = 0; i < size; ++i) {
      double sum = 0;
      for (std::size_t row = 0; row < rows.size(); ++row)
        sum += down.weights(0)[row] * rows[row][i];
      CHECK(std::abs(sum / (1 << (ResampleWeights::kBits - kRowBits)) - summed[i]) <= 0.5);
    }

    const auto out_size = static_cast<std::size_t>(columns * channels);
    std::vector<std::uint8_t> resized(out_size);
    std::vector<std::uint8_t> wanted(out_size);
    resample_columns(summed.data(), across, channels, resized.data());
    resample_paths::columns_portable(summed.data(), across, channels, wanted.data());
    CHECK_EQ(resized, wanted);
  }
}

void test_flat_images_stay_flat() {
  for (const int level : {0, 1, 127, 254, 255}) {
    const std::vector<std::uint8_t> row(4 * 50, static_cast<std::uint8_t>(level));
    const std::vector<const std::uint8_t*> rows(33, row.data());
    const ResampleWeights down(33, 0, 33, 1);
    const ResampleWeights across(50, 3.25, 49.5, 17);
    std::vector<std::int16_t> summed(row.size() + static_cast<std::size_t>(across.taps()) * 4);
    std::vector<std::uint8_t> resized(17 * 4);
    resample_rows(rows.data(), down.weights(0), down.count(0), row.size(), summed.data());
    const auto used = summed.data() + across.first(0) * 4;
    resample_columns(used, across, 4, resized.data());
    CHECK_EQ(resized, std::vector<std::uint8_t>(resized.size(), static_cast<std::uint8_t>(level)));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_weights_sum_to_one();
  tio::test::test_paths_agree();
  tio::test::test_flat_images_stay_flat();
  return tio::test::finish();
}
