// The views of images of any size: always inside of the image, and of the value.
#include <random>

#include "check.h"
#include "image/view_rule.h"

namespace tio::test {
namespace {

constexpr std::int64_t kAnyPixels = std::int64_t{1} << 40;

ViewRule random_rule(std::mt19937_64& random) {
  const auto side = [&random] { return static_cast<std::int64_t>(1 + random() % 90); };
  constexpr Fit::Method kMethods[] = {Fit::Method::none, Fit::Method::stretch, Fit::Method::cover,
                                      Fit::Method::contain};
  ViewRule rule;
  rule.fit = {side(), side(), kMethods[random() % 4], 0};
  if (rule.fit.method == Fit::Method::cover && random() % 2 == 0) {
    rule.fit.short_side = std::max(rule.fit.height, rule.fit.width) + side() - 1;
  }
  if (random() % 2 == 0) rule.crop = Crop{side() - 1, side() - 1, side(), side()};
  switch (random() % 4) {
    case 0: rule.augment = RandomResizedCrop{{0.1, 1}, {0.75, 1.33}, {-0.288, 0.288}, 0.5}; break;
    case 1: rule.augment = RandomCrop{side(), side(), 0.5}; break;
    case 2: rule.augment = RandomFlip{0.5}; break;
    default: break;
  }
  rule.max_pixels = kAnyPixels;
  return rule;
}

void test_views_lie_in_the_image_and_the_value() {
  std::mt19937_64 random(3);
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    const ViewRule rule = random_rule(random);
    const auto height = static_cast<std::int64_t>(1 + random() % 300);
    const auto width = static_cast<std::int64_t>(1 + random() % 300);
    const auto placed = rule.find(height, width, Philox(random(), random()));
    if (!placed) continue;
    ++found;
    const ImageView view = *rule.decoded(*placed);
    CHECK(0 <= view.left && view.left < view.right && view.right <= width);
    CHECK(0 <= view.top && view.top < view.bottom && view.bottom <= height);
    CHECK(placed->value_top >= 0 && view.height >= 1 &&
          placed->value_top + view.height <= rule.fit.height);
    CHECK(placed->value_left >= 0 && view.width >= 1 &&
          placed->value_left + view.width <= rule.fit.width);
    // Rounding may move the resized part past the box by less than a millionth of a pixel.
    CHECK(view.from_x >= 0 && view.to_x <= static_cast<double>(view.right - view.left) + 1e-6);
    CHECK(view.from_y >= 0 && view.to_y <= static_cast<double>(view.bottom - view.top) + 1e-6);
    CHECK(rule.fit.method != Fit::Method::none || !view.is_resized());
  }
  CHECK(found > 5'000);
}

void test_images_without_a_view() {
  const Philox random(1, 2);
  ViewRule rule;
  rule.fit = {8, 8, Fit::Method::stretch, 0};
  rule.max_pixels = 200;
  CHECK(rule.find(10, 20, random).has_value());
  CHECK(!rule.find(10, 21, random));          // more pixels than allowed
  CHECK(!rule.find(65'535, 65'535, random));  // their product is no 32-bit number
  rule.crop = Crop{5, 0, 5, 20};
  CHECK(rule.find(10, 20, random).has_value());
  CHECK(!rule.find(9, 20, random) && !rule.find(10, 19, random));
  rule.crop = Crop{5, 0, INT64_MAX, INT64_MAX};
  CHECK(!rule.find(10, 20, random));
  rule.crop.reset();
  rule.augment = RandomCrop{9, 9, 0};
  CHECK(rule.find(9, 9, random).has_value() && !rule.find(8, 9, random));
  rule.augment.reset();
  rule.fit.method = Fit::Method::none;
  CHECK(rule.find(8, 8, random).has_value() && !rule.find(8, 9, random));
}

void test_images_that_shrink_much() {
  ViewRule rule;
  rule.fit = {2, 3, Fit::Method::stretch, 0};
  rule.max_pixels = kAnyPixels;
  const Philox random(1, 2);
  CHECK(rule.find(64, 96, random).has_value());
  CHECK(!rule.find(65, 96, random) && !rule.find(64, 97, random));
}

// A file is decoded at the smallest scale that has a pixel for each needed one.
void test_scales() {
  struct Case {
    std::int64_t height, width;  // of the value of an image of 320 x 400
    int eighths;
  };
  for (const auto& [height, width, eighths] : {Case{320, 400, 8},
                                               {161, 100, 8},
                                               {160, 200, 4},
                                               {100, 120, 4},
                                               {80, 100, 2},
                                               {41, 40, 2},
                                               {40, 50, 1},
                                               {5, 5, 1}}) {
    ViewRule rule;
    rule.fit = {height, width, Fit::Method::stretch, 0};
    rule.max_pixels = kAnyPixels;
    rule.may_shrink = true;
    const auto placed = rule.find(320, 400, Philox(0, 0));
    CHECK(placed.has_value());
    const ImageView view = *rule.decoded(*placed);
    CHECK_EQ(view.eighths, eighths);
    CHECK(view.fits(320 * eighths / 8, 400 * eighths / 8));
    rule.crop = Crop{10, 10, 160, 200};
    const ImageView cropped = *rule.decoded(*rule.find(320, 400, Philox(0, 0)));
    CHECK(cropped.fits(320 * cropped.eighths / 8, 400 * cropped.eighths / 8));
    CHECK(cropped.eighths >= view.eighths);
    // Formats without scales are decoded at the whole size, if that is exact enough.
    const auto whole = rule.decoded(*placed, false);
    CHECK_EQ(whole.has_value(), height > 5);
    CHECK(!whole || (whole->eighths == 8 && whole->right == 400 && whole->bottom == 320));
  }
}

void test_shared_crops() {
  const SharedCrop shared{10, 20, 1, 4, 5, 10, 1};
  const Crop same = shared.of_size(10, 20);
  CHECK(same.top == 1 && same.left == 4 && same.height == 5 && same.width == 10);
  const Crop larger = shared.of_size(40, 40);
  CHECK(larger.top == 4 && larger.left == 8 && larger.height == 20 && larger.width == 20);
  CHECK(larger.is_flipped);
  const Crop small = shared.of_size(1, 1);
  CHECK(small.top == 0 && small.left == 0 && small.height == 1 && small.width == 1);
  ViewRule rule;
  rule.fit = {8, 8, Fit::Method::stretch, 0};
  rule.max_pixels = kAnyPixels;
  CHECK_EQ(rule.find(40, 40, Philox(0, 0), &shared)->left, 8);
  const SharedCrop unknown;
  CHECK(!rule.find(40, 40, Philox(0, 0), &unknown));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_views_lie_in_the_image_and_the_value();
  test_images_without_a_view();
  test_images_that_shrink_much();
  test_scales();
  test_shared_crops();
  return finish();
}
