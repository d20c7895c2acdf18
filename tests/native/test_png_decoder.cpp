// The PNG decoder, compared with a simple implementation: parts, layouts, and damaged files.
#include <algorithm>
#include <random>
#include <utility>

#include "check.h"
#include "encode.h"
#include "png/decoder.h"
#include "png_rows.h"
#include "png_writer.h"

// An image of a false size must not get the memory for it.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }

namespace tio::test {
namespace {

struct Decoded {
  std::vector<std::uint8_t> pixels;
  std::string reason;
};

Decoded decode(PngDecoder& decoder, const std::string& file, const ImageView& view, int channels) {
  const std::vector<std::byte> data = exact(file);
  Decoded decoded;
  decoded.pixels.resize(static_cast<std::size_t>(view.height * view.width * channels));
  const PixelTarget target{reinterpret_cast<std::byte*>(decoded.pixels.data()),
                           view.width * channels,
                           channels,
                           1,
                           channels,
                           1,
                           nullptr};
  const ViewTarget part{view, target};
  ImageHeader header;
  const bool is_good =
      decoder.open(data, header, decoded.reason) && decoder.decode({&part, 1}, decoded.reason);
  CHECK_EQ_IN(is_good, decoded.reason.empty(), decoded.reason);
  return decoded;
}

Decoded decode(const std::string& file, const ImageView& view, int channels) {
  PngDecoder decoder;
  return decode(decoder, file, view, channels);
}

ImageView part_of(std::int64_t left, std::int64_t top, std::int64_t right, std::int64_t bottom) {
  const std::int64_t width = right - left;
  const std::int64_t height = bottom - top;
  return {
      left,   top,  right, bottom, 0, 0, static_cast<double>(width), static_cast<double>(height),
      height, width};
}

// Returns why the top left pixel of a file cannot be decoded; nothing if it can be.
std::string failure(const std::string& file) { return decode(file, part_of(0, 0, 1, 1), 3).reason; }

std::string file_of(const std::vector<std::string>& chunks) {
  std::string file = kPngSignature;
  for (const std::string& chunk : chunks) file += chunk;
  return file;
}

// Returns a part of an image as a decoder should return it.
std::vector<std::uint8_t> reference(const PngForm& form, const std::string& rows,
                                    const ImageView& view, int channels) {
  const auto depth = static_cast<std::size_t>(form.channels);
  const auto plain = reference_unfilter(rows, form.row_bytes(), depth);
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = view.top; y < view.bottom; ++y) {
    for (std::int64_t x = view.left; x < view.right; ++x) {
      const std::size_t at = static_cast<std::size_t>(y) * (form.row_bytes() + 1) + 1 +
                             static_cast<std::size_t>(x) * depth;
      const auto pixel = reference_pixel(plain->substr(at, depth), channels);
      pixels.insert(pixels.end(), pixel.begin(), pixel.end());
    }
  }
  return pixels;
}

PngForm random_form(std::mt19937_64& random) {
  PngForm form;
  form.width = static_cast<std::uint32_t>(1 + random() % 60);
  form.height = static_cast<std::uint32_t>(1 + random() % 60);
  form.channels = 1 + static_cast<int>(random() % 4);
  form.pieces = 1 + static_cast<int>(random() % 5);
  form.noise = random() % 2 == 0 ? 256 : 3;
  for (int& filter : form.filters) filter = static_cast<int>(random() % 5);
  return form;
}

void test_parts_of_images() {
  std::mt19937_64 random(3);
  const auto range = [&random](std::int64_t size) {
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
    const auto rest = static_cast<std::uint64_t>(size - begin);
    return std::pair(begin, begin + 1 + static_cast<std::int64_t>(random() % rest));
  };
  PngDecoder decoder;
  for (int round = 0; round < 400; ++round) {
    const PngForm form = random_form(random);
    const std::string rows = make_png_rows(form, random);
    const int channels = 1 + static_cast<int>(random() % 4);
    const auto [left, right] = range(form.width);
    const auto [top, bottom] = range(form.height);
    const ImageView view = part_of(left, top, right, bottom);
    const auto found = decode(decoder, write_png(form, rows), view, channels);
    CHECK_EQ_IN(found.reason, "", round);
    CHECK_EQ_IN(found.pixels, reference(form, rows, view, channels), round);
  }
}

void test_resized_parts_do_not_depend_on_what_is_outside() {
  std::mt19937_64 random(4);
  for (const int channels : {1, 2, 3, 4}) {
    const PngForm whole{.width = 40, .height = 30, .channels = channels, .filters = {0}};
    const std::string rows = make_png_rows(whole, random);
    const PngForm cut{.width = 20, .height = 12, .channels = channels, .filters = {0}};
    std::string inner;
    for (std::size_t y = 0; y < cut.height; ++y) {
      const std::size_t row = (y + 7) * (whole.row_bytes() + 1) + 1;
      inner += '\0' + rows.substr(row + 5 * static_cast<std::size_t>(channels), cut.row_bytes());
    }
    ImageView part = part_of(5, 7, 25, 19);
    ImageView all = part_of(0, 0, 20, 12);
    for (ImageView* const view : {&part, &all}) {
      view->from_x = 1.25;
      view->to_y = 11.5;
      view->height = 5;
      view->width = 33;
    }
    const auto found = decode(write_png(whole, rows), part, 3);
    const auto wanted = decode(write_png(cut, inner), all, 3);
    CHECK_EQ(found.reason + wanted.reason, "");
    CHECK_EQ(found.pixels, wanted.pixels);
    CHECK(std::ranges::any_of(found.pixels, [](std::uint8_t level) { return level != 0; }));
  }
}

void test_chunks_that_are_skipped() {
  std::mt19937_64 random(5);
  const PngForm form{.width = 9, .height = 8};
  const std::string rows = make_png_rows(form, random);
  const std::string pixels = png_pixels(compress_zlib(rows), 3);
  const std::string end = png_chunk("IEND", "");
  const std::string text = png_chunk("tEXt", "a text");
  const std::string colors = png_chunk("PLTE", "abc");
  const ImageView view = part_of(0, 0, 9, 8);
  const auto wanted = reference(form, rows, view, 3);
  for (const std::string& file :
       {file_of({form.header(), text, colors, pixels, text, end}),
        file_of({form.header(), png_chunk("IDAT", ""), pixels, end}) + "what follows"}) {
    const auto found = decode(file, view, 3);
    CHECK_EQ(found.reason, "");
    CHECK_EQ(found.pixels, wanted);
  }
}

void test_every_damage_is_found() {
  std::mt19937_64 random(6);
  const PngForm form{.width = 9, .height = 8, .pieces = 2};
  const std::string file = write_png(form, make_png_rows(form, random));
  CHECK_EQ(failure(file), "");
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    CHECK(!failure(damaged).empty());
    CHECK(!failure(file.substr(0, at)).empty());
  }
}

void test_pixels_that_do_not_fit() {
  std::mt19937_64 random(7);
  const PngForm form{.width = 9, .height = 8};
  const std::string rows = make_png_rows(form, random);
  CHECK_EQ(failure(write_png(form, rows.substr(1))), "it has too few pixels");
  CHECK_EQ(failure(write_png(form, rows + '\0')), "it has too many pixels");
  CHECK_EQ(failure(write_png(form, "")), "it has too few pixels");
  for (const int filter : {5, 255}) {
    PngForm wrong = form;
    wrong.filters = {0, 0, 0, filter};
    CHECK_EQ(failure(write_png(wrong, make_png_rows(wrong, random))),
             "a row has an unknown filter");
  }
  const auto stored_as = [&form](const std::string& compressed) {
    return failure(file_of({form.header(), png_pixels(compressed, 1), png_chunk("IEND", "")}));
  };
  std::string compressed = compress_zlib(rows);
  CHECK_EQ(stored_as(compressed), "");
  CHECK(!stored_as(compressed.substr(0, compressed.size() - 5)).empty());
  compressed.back() = static_cast<char>(compressed.back() ^ 1);
  CHECK_EQ(stored_as(compressed), "its compressed pixels are damaged");
  CHECK_EQ(stored_as("not zlib at all"), "its compressed pixels are damaged");
}

void test_false_sizes_get_no_memory() {
  std::mt19937_64 random(8);
  constexpr std::uint32_t kMost = INT32_MAX;
  const std::string rows = make_png_rows({.width = 9, .height = 8}, random);
  for (const auto& [width, height] : {std::pair(kMost, 1U), {1U, kMost}, {kMost, kMost}}) {
    for (const int channels : {1, 4}) {
      const PngForm form{.width = width, .height = height, .channels = channels};
      CHECK_EQ(failure(write_png(form, rows)), "it has too few pixels");
    }
  }
}

void test_the_best_compression_is_possible() {
  const PngForm form{.width = 2000, .height = 2000, .channels = 1, .filters = {0}};
  const std::string rows((form.row_bytes() + 1) * form.height, '\0');
  CHECK_EQ(failure(write_png(form, rows)), "");
}

void test_headers_that_are_refused() {
  std::mt19937_64 random(9);
  const PngForm form{.width = 9, .height = 8};
  const std::string pixels = png_pixels(compress_zlib(make_png_rows(form, random)), 1);
  const std::string end = png_chunk("IEND", "");
  const auto fails_with = [&](const std::string& fields) {
    const std::string reason = failure(file_of({png_chunk("IHDR", fields), pixels, end}));
    CHECK_EQ_IN(reason, "its header is invalid", fields);
  };
  const auto fields = [](std::uint32_t width, std::uint32_t height, std::initializer_list<int> a) {
    return big_endian(width) + big_endian(height) + raw(a);
  };
  for (const int depth : {0, 1, 4, 16}) fails_with(fields(9, 8, {depth, 2, 0, 0, 0}));
  for (const int color : {1, 3, 5, 7}) fails_with(fields(9, 8, {8, color, 0, 0, 0}));
  fails_with(fields(9, 8, {8, 2, 1, 0, 0}));
  fails_with(fields(9, 8, {8, 2, 0, 1, 0}));
  fails_with(fields(9, 8, {8, 2, 0, 0, 1}));
  fails_with(fields(0, 8, {8, 2, 0, 0, 0}));
  fails_with(fields(9, 0, {8, 2, 0, 0, 0}));
  fails_with(fields(1U << 31, 8, {8, 2, 0, 0, 0}));
  fails_with(fields(9, 1U << 31, {8, 2, 0, 0, 0}));
  fails_with(fields(9, 8, {8, 2, 0, 0}));
  fails_with(fields(9, 8, {8, 2, 0, 0, 0, 0}));
  CHECK_EQ(failure(file_of({pixels, end})), "its header is invalid");
  CHECK_EQ(failure(file_of({png_chunk("tEXt", ""), form.header(), pixels, end})),
           "its header is invalid");
  CHECK_EQ(failure(file_of({form.header(), form.header(), pixels, end})), "its header is invalid");
}

void test_refusals() {
  std::mt19937_64 random(10);
  const PngForm form{.width = 9, .height = 8};
  const std::string rows = make_png_rows(form, random);
  const std::string pixels = png_pixels(compress_zlib(rows), 1);
  const std::string end = png_chunk("IEND", "");
  CHECK_EQ(failure(""), "it is not a PNG");
  CHECK_EQ(failure("not a PNG at all"), "it is not a PNG");
  CHECK_EQ(failure(kPngSignature), "it is truncated");
  CHECK_EQ(failure(file_of({form.header(), pixels})), "it is truncated");
  CHECK_EQ(failure(file_of({form.header(), end})), "it has too few pixels");
  CHECK_EQ(failure(file_of({form.header(), png_chunk("ABCD", ""), pixels, end})),
           "it needs an unknown chunk");
  const std::string pieces = png_pixels(compress_zlib(rows), 2);
  const std::size_t second = pieces.rfind("IDAT") - 4;
  CHECK_EQ(failure(file_of({form.header(), pieces.substr(0, second), png_chunk("tEXt", ""),
                            pieces.substr(second), end})),
           "its pixels are interrupted by another chunk");
  for (const ImageView& view :
       {part_of(0, 0, 10, 8), part_of(0, 0, 9, 9), part_of(-1, 0, 4, 4), part_of(3, 3, 3, 4)}) {
    CHECK_EQ(decode(write_png(form, rows), view, 3).reason,
             "the part to decode is not in the image");
  }
}

void test_images_after_bad_ones() {
  std::mt19937_64 random(11);
  PngDecoder decoder;
  for (int round = 0; round < 100; ++round) {
    const PngForm form = random_form(random);
    const std::string rows = make_png_rows(form, random);
    const std::string file = write_png(form, rows);
    std::string damaged = file;
    damaged[8 + random() % (file.size() - 8)] ^= 1;
    const ImageView view = part_of(0, 0, form.width, form.height);
    CHECK(!decode(decoder, damaged, view, 3).reason.empty());
    CHECK(!decode(decoder, write_png(form, rows.substr(1)), view, 3).reason.empty());
    CHECK_EQ_IN(decode(decoder, file, view, 3).pixels, reference(form, rows, view, 3), round);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_parts_of_images();
  test_resized_parts_do_not_depend_on_what_is_outside();
  test_chunks_that_are_skipped();
  test_every_damage_is_found();
  test_pixels_that_do_not_fit();
  test_false_sizes_get_no_memory();
  test_the_best_compression_is_possible();
  test_headers_that_are_refused();
  test_refusals();
  test_images_after_bad_ones();
  return finish();
}
