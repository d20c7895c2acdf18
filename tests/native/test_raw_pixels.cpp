// Images that are stored as their pixels: every view, in memory of exactly their size.
#include <random>

#include "check.h"
#include "image/raw_pixels.h"

namespace tio::test {
namespace {

std::int64_t below(std::mt19937_64& random, std::int64_t most) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
}

void test_views() {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const ImageHeader header{1 + below(random, 40), 1 + below(random, 40),
                             random() % 2 == 0 ? 1 : 3};
    std::vector<std::byte> stored(
        static_cast<std::size_t>(header.height * header.width * header.components));
    for (std::byte& level : stored) level = static_cast<std::byte>(random());
    ImageView view;
    view.left = below(random, header.width);
    view.top = below(random, header.height);
    view.right = view.left + 1 + below(random, header.width - view.left);
    view.bottom = view.top + 1 + below(random, header.height - view.top);
    view.to_x = static_cast<double>(view.width = view.right - view.left);
    view.to_y = static_cast<double>(view.height = view.bottom - view.top);
    const bool is_whole = random() % 2 == 0;
    if (!is_whole) {
      view.height = 1 + below(random, 30);
      view.width = 1 + below(random, 30);
      view.is_nearest = random() % 3 == 0;
    }
    std::vector<std::byte> out(
        static_cast<std::size_t>(view.height * view.width * header.components));
    const std::int64_t channels = header.components;
    const ViewTarget part{
        view, {out.data(), view.width * channels, channels, 1, header.components, 1, nullptr}};
    RawPixels decoder;
    std::string reason;
    CHECK(decoder.open(stored, header, reason) && decoder.decode({&part, 1}, reason));
    for (std::int64_t y = 0; is_whole && y < view.height; ++y) {
      for (std::int64_t x = 0; x < view.width * channels; ++x) {
        const std::int64_t from =
            (y + view.top) * header.width * channels + view.left * channels + x;
        CHECK(out[y * view.width * channels + x] == stored[from]);
      }
    }
  }
}

void test_sizes() {
  const std::vector<std::byte> stored(60);
  RawPixels decoder;
  std::string reason;
  CHECK(decoder.open(stored, {4, 5, 3}, reason));
  for (const ImageHeader& header : {ImageHeader{4, 5, 1},
                                    {5, 5, 3},
                                    {0, 5, 3},
                                    {4, -5, 3},
                                    {-4, -5, 3},
                                    {15, 1, 4},
                                    {INT64_MAX, INT64_MAX, 3},
                                    {1, INT64_MAX, 1}}) {
    CHECK(!decoder.open(stored, header, reason));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_views();
  test_sizes();
  return finish();
}
