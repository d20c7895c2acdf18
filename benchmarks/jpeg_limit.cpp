// Upper limit of the speed of reading JPEGs on one thread: libjpeg-turbo and the resizing of this
// library, called without anything around them.
//
//   jpeg_limit FILE crop|evaluate|whole SECONDS OUT
//
// Prints the images per CPU-second of decoding and resizing, of decoding alone and of resizing
// alone. Only the rows and columns that are needed are decoded, with the accurate DCT. The pixels
// of the first pass are written to OUT, for the comparison.
#include <cstdio>
#include <cstring>
// The header of libjpeg needs those above.
#include <jpeglib.h>
#include <tmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "image/resample.h"

namespace {

constexpr int kSize = 224;
constexpr int kShortSide = 256;
constexpr int kMargin = 4;  // columns around a box, so that its edge is interpolated like the rest
constexpr std::size_t kImageBytes = std::size_t{kSize} * kSize * 3;

struct Box {
  int top, left, height, width, is_mirrored;
};

struct Image {
  Box box;
  const unsigned char* bytes;
  unsigned long size;
};

// A row of RGBX becomes RGB.
void write_row(const std::uint8_t* row, bool is_mirrored, std::uint8_t* out) {
  const __m128i forward = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m128i backward = _mm_setr_epi8(12, 13, 14, 8, 9, 10, 4, 5, 6, 0, 1, 2, -1, -1, -1, -1);
  for (int x = 0; x < kSize; x += 4) {
    const int from = is_mirrored ? kSize - 4 - x : x;
    const auto* pixels = reinterpret_cast<const __m128i*>(row + from * 4);
    const __m128i packed =
        _mm_shuffle_epi8(_mm_loadu_si128(pixels), is_mirrored ? backward : forward);
    if (x + 4 < kSize) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x * 3), packed);
    } else {
      alignas(16) std::uint8_t last[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(last), packed);
      std::memcpy(out + x * 3, last, 12);
    }
  }
}

class Reader {
 public:
  Reader() {
    image_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&image_);
  }
  ~Reader() { jpeg_destroy_decompress(&image_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Decodes the rows and columns of a box into memory that resize() uses.
  void decode(const Image& input, const std::string& recipe) {
    jpeg_mem_src(&image_, input.bytes, input.size);
    jpeg_read_header(&image_, TRUE);
    image_.out_color_space = JCS_EXT_RGBX;
    image_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&image_);
    set_view(input.box, recipe);
    const int left = box_.left + static_cast<int>(first_x_);
    const int right = box_.left + static_cast<int>(end_x_);
    const int width = static_cast<int>(image_.output_width);
    auto offset = static_cast<JDIMENSION>(std::max(left - kMargin, 0));
    JDIMENSION columns = static_cast<JDIMENSION>(std::min(right + kMargin, width)) - offset;
    if (columns < image_.output_width) jpeg_crop_scanline(&image_, &offset, &columns);
    first_column_ = left - static_cast<int>(offset);
    row_bytes_ = (std::size_t{columns} * 4 + 31) / 32 * 32;
    const int top = box_.top + static_cast<int>(first_y_);
    const int rows = static_cast<int>(end_y_ - first_y_);
    memory_.resize(row_bytes_ * static_cast<std::size_t>(rows + kMargin) + 64);
    // libjpeg-turbo writes rows at multiples of 32 past the caches: they are slow to read.
    const std::size_t over = reinterpret_cast<std::uintptr_t>(memory_.data()) % 32;
    rows_ = memory_.data() + 32 - over + 8;
    const int skipped = std::max(top - kMargin, 0);
    if (skipped > 0) jpeg_skip_scanlines(&image_, static_cast<JDIMENSION>(skipped));
    first_row_ = top - skipped;
    for (int row = 0; row < first_row_ + rows; ++row) {
      JSAMPROW at = rows_ + row_bytes_ * static_cast<std::size_t>(row);
      jpeg_read_scanlines(&image_, &at, 1);
    }
    jpeg_abort_decompress(&image_);
  }

  // Resizes what decode() left, or copies it.
  void resize(const Image& input, std::uint8_t* out) {
    const auto row_at = [this](std::int64_t row) {
      return rows_ + row_bytes_ * static_cast<std::size_t>(first_row_ + row) + first_column_ * 4;
    };
    if (is_copied_) {
      for (int y = 0; y < kSize; ++y, out += kSize * 3) write_row(row_at(y), false, out);
      return;
    }
    const tio::ResampleWeights& across = *across_;
    const tio::ResampleWeights& down = *down_;
    const auto size = static_cast<std::size_t>(end_x_ - first_x_) * 4;
    summed_.resize(size + static_cast<std::size_t>(across.taps() * 4));
    resized_.resize(std::size_t{kSize} * 4 + 16);
    std::vector<const std::uint8_t*> inputs(static_cast<std::size_t>(down.most()));
    for (int y = 0; y < kSize; ++y, out += kSize * 3) {
      for (std::int64_t i = 0; i < down.count(y); ++i) {
        inputs[static_cast<std::size_t>(i)] = row_at(down.first(y) + i - first_y_);
      }
      tio::resample_rows(inputs.data(), down.weights(y), down.count(y), size, summed_.data());
      tio::resample_columns(summed_.data(), across, 4, resized_.data());
      write_row(resized_.data(), input.box.is_mirrored != 0, out);
    }
  }

 private:
  void set_view(const Box& box, const std::string& recipe) {
    const int width = static_cast<int>(image_.output_width);
    const int height = static_cast<int>(image_.output_height);
    box_ = recipe == "crop" ? box : Box{0, 0, height, width, 0};
    double from_x = 0, from_y = 0;
    double to_x = box_.width, to_y = box_.height;
    is_copied_ = recipe == "whole";
    if (recipe == "evaluate") {
      const double scale = static_cast<double>(kShortSide) / std::min(width, height);
      const int columns = static_cast<int>(width * scale), rows = static_cast<int>(height * scale);
      const double left = std::nearbyint((columns - kSize) / 2.0);
      const double top = std::nearbyint((rows - kSize) / 2.0);
      from_x = left * width / columns;
      to_x = (left + kSize) * width / columns;
      from_y = top * height / rows;
      to_y = (top + kSize) * height / rows;
    }
    if (is_copied_) {
      first_x_ = first_y_ = 0;
      end_x_ = width;
      end_y_ = height;
      return;
    }
    across_.emplace(box_.width, from_x, to_x, kSize);
    down_.emplace(box_.height, from_y, to_y, kSize);
    first_x_ = across_->first(0);
    end_x_ = across_->end();
    first_y_ = down_->first(0);
    end_y_ = down_->end();
  }

  jpeg_decompress_struct image_{};
  jpeg_error_mgr errors_{};
  Box box_{};
  std::optional<tio::ResampleWeights> across_, down_;
  std::int64_t first_x_ = 0, end_x_ = 0, first_y_ = 0, end_y_ = 0;
  bool is_copied_ = false;
  int first_column_ = 0, first_row_ = 0;
  std::size_t row_bytes_ = 0;
  std::vector<std::uint8_t> memory_;
  std::uint8_t* rows_ = nullptr;
  std::vector<std::int16_t> summed_;
  std::vector<std::uint8_t> resized_;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Calls a function with all images, again and again, and returns images per CPU-second.
template <class Work>
double rate_of(const std::vector<Image>& images, double seconds, const Work& work) {
  const double start = cpu_seconds();
  double used = 0;
  std::size_t count = 0;
  while (used < seconds) {
    for (std::size_t i = 0; i < images.size(); ++i) work(images[i], i);
    count += images.size();
    used = cpu_seconds() - start;
  }
  return static_cast<double>(count) / used;
}

std::vector<unsigned char> read_file(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) std::exit(1);
  std::fseek(file, 0, SEEK_END);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(std::ftell(file)));
  std::rewind(file);
  const bool is_read = std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size();
  std::fclose(file);
  if (!is_read) std::exit(1);
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::vector<unsigned char> file = read_file(arguments[1]);
  const std::string recipe = arguments[2];
  const double seconds = std::atof(arguments[3]);
  std::vector<Image> images;
  for (std::size_t at = 0; at < file.size();) {
    int header[6];
    std::memcpy(header, &file[at], sizeof header);
    at += sizeof header;
    images.push_back({{header[0], header[1], header[2], header[3], header[4]},
                      &file[at],
                      static_cast<unsigned long>(header[5])});
    at += images.back().size;
  }
  std::vector<std::uint8_t> pixels(images.size() * kImageBytes);
  Reader reader;
  const auto both = [&](const Image& image, std::size_t number) {
    reader.decode(image, recipe);
    reader.resize(image, &pixels[number * kImageBytes]);
  };
  for (std::size_t i = 0; i < images.size(); ++i) both(images[i], i);
  std::FILE* out = std::fopen(arguments[4], "wb");
  if (out == nullptr || std::fwrite(pixels.data(), 1, pixels.size(), out) != pixels.size())
    return 1;
  std::fclose(out);
  const double together = rate_of(images, seconds, both);
  const double decoding = rate_of(
      images, seconds, [&](const Image& image, std::size_t) { reader.decode(image, recipe); });
  std::printf("{\"images_per_cpu_s\": %.1f, \"decoded_per_cpu_s\": %.1f}\n", together, decoding);
  return 0;
}
