// Changes of colors: the random choice, and every path compared with the portable one.
#include <algorithm>
#include <random>
#include <utility>

#include "check.h"
#include "image/color_jitter.h"
#include "image/color_jitter_paths.h"

namespace tio::test {
namespace {

constexpr ColorChange kAll[] = {ColorChange::brightness, ColorChange::contrast,
                                ColorChange::saturation, ColorChange::hue};

std::vector<std::uint8_t> random_pixels(std::mt19937_64& random, std::size_t size) {
  std::vector<std::uint8_t> pixels(size);
  const bool is_flat = random() % 8 == 0;
  for (auto& level : pixels) level = static_cast<std::uint8_t>(is_flat ? 77 : random());
  return pixels;
}

double factor_of(ColorChange kind, std::mt19937_64& random) {
  std::uniform_real_distribution<double> turn(-0.5, 0.5);
  std::uniform_real_distribution<double> factor(0, 3);
  const double ends[] = {0, 1, ColorJitter::kMostFactor};
  if (kind == ColorChange::hue) return random() % 8 == 0 ? 0.5 : turn(random);
  return random() % 4 == 0 ? ends[random() % 3] : factor(random);
}

// Makes a choice by the portable path, one pixel after another but for the mean.
void apply_portable(const JitterChoice& choice, std::vector<std::uint8_t>& pixels, int channels) {
  using namespace jitter_paths;
  const auto step = static_cast<std::size_t>(channels);
  const std::size_t count = pixels.size() / step;
  for (std::size_t i = 0; i < choice.count; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < count; ++at) {
      sum += sum_gray_portable(&pixels[at * step], 1, channels);
    }
    const float mean = static_cast<float>(sum) / static_cast<float>(count);
    for (std::size_t at = 0; at < count; ++at) {
      change_portable({&choice.order[i], &choice.factors[i], 1, mean}, &pixels[at * step], 1,
                      channels);
    }
  }
}

void test_paths_agree() {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    const int channels = round % 2 == 0 ? 3 : 4;
    // Around the number of pixels that are changed at a time.
    const std::size_t count = round < 10 ? 1 + random() % 40 : 200 + random() % 400;
    const auto stored = random_pixels(random, count * static_cast<std::size_t>(channels));
    JitterChoice choice;
    for (const ColorChange kind : kAll) {
      if (random() % 3 == 0) continue;
      choice.order[choice.count] = kind;
      choice.factors[choice.count++] = factor_of(kind, random);
    }
    for (std::size_t i = 1; i < choice.count; ++i) {
      const std::size_t other = random() % (i + 1);
      std::swap(choice.order[i], choice.order[other]);
      std::swap(choice.factors[i], choice.factors[other]);
    }
    auto expected = stored;
    apply_portable(choice, expected, channels);
    for (const jitter_paths::Path& path : jitter_paths::paths()) {
      auto found = stored;
      jitter_paths::apply(path, choice, found.data(), count, channels);
      CHECK_EQ_IN(found, expected, round);
    }
    for (std::size_t i = 3; channels == 4 && i < stored.size(); i += 4) {
      CHECK_EQ(expected[i], stored[i]);
    }
  }
}

void test_no_pixels() {
  const JitterChoice choice{{ColorChange::hue, ColorChange::contrast}, {0.25, 2}, 2};
  std::uint8_t unused = 7;
  apply(choice, &unused, 0);
  CHECK_EQ(unused, 7);
}

void test_changes_of_no_effect_are_left_out() {
  ColorJitter jitter;
  for (std::uint64_t key = 0; key < 20; ++key) {
    Philox random(key, 0);
    CHECK_EQ(jitter.choose(random).count, std::size_t{0});
  }
  jitter.ranges[0] = {1, 1.5};
  jitter.ranges[3] = {0.25, 0.25};
  std::size_t hues_first = 0;
  for (std::uint64_t key = 0; key < 400; ++key) {
    Philox random(key, 0);
    const JitterChoice choice = jitter.choose(random);
    CHECK_EQ(choice.count, std::size_t{2});
    const std::size_t hue = choice.order[0] == ColorChange::hue ? 0 : 1;
    CHECK(choice.order[1 - hue] == ColorChange::brightness);
    CHECK_EQ(choice.factors[hue], 0.25);
    CHECK(choice.factors[1 - hue] >= 1 && choice.factors[1 - hue] < 1.5);
    hues_first += hue == 0 ? 1 : 0;
  }
  CHECK(hues_first > 150 && hues_first < 250);
}

void test_the_probability_and_all_orders() {
  ColorJitter jitter{{{{0.5, 1.5}, {0.5, 1.5}, {0.5, 1.5}, {-0.1, 0.1}}}, 0.5};
  std::vector<std::array<ColorChange, 4>> orders;
  std::size_t changed = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    Philox random(key, 1);
    const JitterChoice choice = jitter.choose(random);
    if (choice.count == 0) continue;
    ++changed;
    CHECK_EQ(choice.count, std::size_t{4});
    if (std::find(orders.begin(), orders.end(), choice.order) == orders.end()) {
      orders.push_back(choice.order);
    }
  }
  CHECK(changed > 400 && changed < 600);
  CHECK_EQ(orders.size(), std::size_t{24});
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_paths_agree();
  tio::test::test_no_pixels();
  tio::test::test_changes_of_no_effect_are_left_out();
  tio::test::test_the_probability_and_all_orders();
  return tio::test::finish();
}
