// The JPEG decoder: every part of an image is that of the whole image, in every layout.
#include <cstdio>
// The header of libjpeg needs that above.
#include <jpeglib.h>

#include <random>

#include "check.h"
#include "encode.h"
#include "jpeg/decoder.h"
#include "jpeg_writer.h"

namespace tio::test {
namespace {

struct Decoded {
  std::vector<std::uint8_t> pixels;
  std::string reason;
};

Decoded decode(const std::string& file, const ImageView& view, int channels) {
  const std::vector<std::byte> data = exact(file);
  JpegDecoder decoder;
  ImageHeader header;
  Decoded decoded;
  if (!decoder.open(data, header, decoded.reason)) return decoded;
  decoded.pixels.resize(static_cast<std::size_t>(view.height * view.width * channels));
  const PixelTarget target{reinterpret_cast<std::byte*>(decoded.pixels.data()),
                           view.width * channels,
                           channels,
                           1,
                           channels,
                           1,
                           nullptr};
  const ViewTarget part{view, target};
  decoder.decode({&part, 1}, decoded.reason);
  return decoded;
}

ImageView part_of(std::int64_t left, std::int64_t top, std::int64_t right, std::int64_t bottom) {
  const std::int64_t width = right - left;
  const std::int64_t height = bottom - top;
  return {
      left,   top,  right, bottom, 0, 0, static_cast<double>(width), static_cast<double>(height),
      height, width};
}

void test_parts_are_those_of_the_whole_image() {
  std::mt19937_64 random(3);
  for (int round = 0; round < 600; ++round) {
    const auto width = static_cast<std::int64_t>(1 + random() % 100);
    const auto height = static_cast<std::int64_t>(1 + random() % 100);
    JpegForm form;
    form.width = static_cast<unsigned>(width);
    form.height = static_cast<unsigned>(height);
    form.stored = round % 5 == 0   ? JCS_GRAYSCALE
                  : round % 7 == 0 ? JCS_CMYK
                  : round % 9 == 0 ? JCS_YCCK
                                   : JCS_YCbCr;
    form.across = 1 + static_cast<int>(random() % 4);
    form.down = 1 + static_cast<int>(random() % 2);
    form.is_progressive = random() % 3 == 0;
    form.restart = static_cast<unsigned>(random() % 5);
    const std::string file = write_jpeg(form, random);
    const int channels = 1 + static_cast<int>(random() % 4);
    const auto whole = decode(file, part_of(0, 0, width, height), channels);
    CHECK_EQ(whole.reason, "");
    const auto left = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(width));
    const auto top = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(height));
    const auto right =
        left + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(width - left));
    const auto bottom =
        top + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(height - top));
    const auto part = decode(file, part_of(left, top, right, bottom), channels);
    CHECK_EQ(part.reason, "");
    bool is_equal = true;
    for (std::int64_t y = top; y < bottom; ++y) {
      for (std::int64_t i = left * channels; i < right * channels; ++i) {
        is_equal &= part.pixels[(y - top) * (right - left) * channels + i - left * channels] ==
                    whole.pixels[y * width * channels + i];
      }
    }
    CHECK(is_equal);
  }
}

void test_layouts_and_tables() {
  std::mt19937_64 random(4);
  JpegForm form;
  form.width = 67;
  form.height = 9;
  const std::string file = write_jpeg(form, random);
  const ImageView view = part_of(0, 0, 67, 9);
  const auto expected = decode(file, view, 3);
  const std::vector<std::byte> data = exact(file);
  std::vector<std::uint32_t> tables(3 * 256);
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<std::uint32_t>(i * 1000);
  for (const bool is_mirrored : {false, true}) {
    std::vector<std::uint8_t> planes(expected.pixels.size());
    std::vector<std::uint32_t> values(expected.pixels.size());
    const std::int64_t step = is_mirrored ? -1 : 1;
    const std::size_t origin = is_mirrored ? 66 : 0;
    JpegDecoder decoder;
    ImageHeader header;
    std::string reason;
    const PixelTarget target{
        reinterpret_cast<std::byte*>(planes.data() + origin), 67, step, 67 * 9, 3, 1, nullptr};
    ViewTarget part{view, target};
    CHECK(decoder.open(data, header, reason) && decoder.decode({&part, 1}, reason));
    part.target = {reinterpret_cast<std::byte*>(values.data() + origin), 67, step, 67 * 9, 3, 4,
                   reinterpret_cast<const std::byte*>(tables.data())};
    CHECK(decoder.open(data, header, reason) && decoder.decode({&part, 1}, reason));
    bool is_equal = true;
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < 9; ++y) {
        for (std::size_t x = 0; x < 67; ++x) {
          const auto level = expected.pixels[(y * 67 + x) * 3 + c];
          const std::size_t at = (c * 9 + y) * 67 + (is_mirrored ? 66 - x : x);
          is_equal &= planes[at] == level && values[at] == (c * 256 + level) * 1000;
        }
      }
    }
    CHECK(is_equal);
  }
}

// Returns a random view of an image: cut out, resized, or of the nearest pixels.
ImageView random_view(std::mt19937_64& random, std::int64_t height, std::int64_t width) {
  const auto below = [&random](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const std::int64_t left = below(width);
  const std::int64_t top = below(height);
  ImageView view =
      part_of(left, top, left + 1 + below(width - left), top + 1 + below(height - top));
  if (random() % 4 == 0) return view;
  view.from_x = view.to_x * 0.1;
  view.height = 1 + below(30);
  view.width = 1 + below(30);
  view.is_nearest = random() % 3 == 0;
  return view;
}

void test_several_views_are_those_of_one_each() {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    JpegForm form;
    form.width = static_cast<unsigned>(1 + random() % 90);
    form.height = static_cast<unsigned>(1 + random() % 90);
    form.down = 1 + static_cast<int>(random() % 2);
    const std::string file = write_jpeg(form, random);
    std::vector<ImageView> views(1 + random() % 4);
    for (ImageView& view : views) view = random_view(random, form.height, form.width);
    std::vector<std::vector<std::uint8_t>> pixels;
    std::vector<ViewTarget> parts;
    for (const ImageView& view : views) {
      auto& own = pixels.emplace_back(static_cast<std::size_t>(view.height * view.width * 3));
      parts.push_back(
          {view, {reinterpret_cast<std::byte*>(own.data()), view.width * 3, 3, 1, 3, 1, nullptr}});
    }
    const std::vector<std::byte> data = exact(file);
    JpegDecoder decoder;
    ImageHeader header;
    std::string reason;
    CHECK(decoder.open(data, header, reason) && decoder.decode(parts, reason));
    for (std::size_t i = 0; i < views.size(); ++i) {
      CHECK(pixels[i] == decode(file, views[i], 3).pixels);
    }
  }
}

void test_nearest_pixels() {
  std::mt19937_64 random(7);
  const std::string file = write_jpeg({.width = 50, .height = 40}, random);
  const auto whole = decode(file, part_of(0, 0, 50, 40), 3).pixels;
  ImageView view = part_of(5, 10, 45, 40);
  view.height = 7;
  view.width = 64;
  view.is_nearest = true;
  const auto found = decode(file, view, 3).pixels;
  bool is_equal = true;
  for (std::size_t y = 0; y < 7; ++y) {
    for (std::size_t x = 0; x < 64; ++x) {
      const std::size_t row = 10 + (2 * y + 1) * 30 / 14;
      const std::size_t column = 5 + (2 * x + 1) * 40 / 128;
      for (std::size_t c = 0; c < 3; ++c) {
        is_equal &= found[(y * 64 + x) * 3 + c] == whole[(row * 50 + column) * 3 + c];
      }
    }
  }
  CHECK(is_equal);
}

void test_refusals() {
  std::mt19937_64 random(6);
  JpegForm form;
  form.width = 40;
  form.height = 30;
  const std::string file = write_jpeg(form, random);
  for (const ImageView& view :
       {part_of(0, 0, 41, 30), part_of(0, 0, 40, 31), part_of(-1, 0, 4, 4)}) {
    CHECK_EQ(decode(file, view, 3).reason, "the part to decode is not in the image");
  }
  CHECK_EQ(decode("", part_of(0, 0, 1, 1), 3).reason, "it is empty");
  CHECK(!decode("not a JPEG at all", part_of(0, 0, 1, 1), 3).reason.empty());
  const std::string cut = file.substr(0, file.size() - 60) + "\xff\xd9";
  CHECK(!decode(cut, part_of(0, 0, 40, 30), 3).reason.empty());
  // Rows below those that are used are not decoded.
  CHECK_EQ(decode(cut, part_of(0, 0, 40, 4), 3).reason, "");
}

void test_tables_of_an_image_are_not_used_for_the_next() {
  std::mt19937_64 random(8);
  const std::string good = write_jpeg({.width = 40, .height = 30}, random);
  const std::string bare = good.substr(0, 2) + good.substr(good.find("\xff\xc0"));
  const std::vector<std::byte> first = exact(good);
  const std::vector<std::byte> second = exact(bare);
  const ImageView view = part_of(0, 0, 40, 30);
  std::vector<std::byte> pixels(40 * 30 * 3);
  const ViewTarget part{view, {pixels.data(), 120, 3, 1, 3, 1, nullptr}};
  JpegDecoder decoder;
  ImageHeader header;
  std::string reason;
  CHECK(decoder.open(first, header, reason) && decoder.decode({&part, 1}, reason));
  CHECK(!decoder.open(second, header, reason) || !decoder.decode({&part, 1}, reason));
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_parts_are_those_of_the_whole_image();
  tio::test::test_layouts_and_tables();
  tio::test::test_several_views_are_those_of_one_each();
  tio::test::test_nearest_pixels();
  tio::test::test_refusals();
  tio::test::test_tables_of_an_image_are_not_used_for_the_next();
  return tio::test::finish();
}
