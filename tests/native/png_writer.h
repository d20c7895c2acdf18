// PNGs of many forms, valid or not, for tests and as seeds of the fuzzer.
#pragma once

#include <libdeflate.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace tio::test {

inline const std::string kPngSignature = "\x89PNG\r\n\x1a\n";

inline std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

inline std::string png_chunk(const std::string& kind, const std::string& content) {
  const std::string body = kind + content;
  return big_endian(static_cast<std::uint32_t>(content.size())) + body +
         big_endian(libdeflate_crc32(0, body.data(), body.size()));
}

inline std::string compress_zlib(const std::string& bytes) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
  if (compressor == nullptr) std::abort();
  std::string out(libdeflate_zlib_compress_bound(compressor, bytes.size()), '\0');
  out.resize(
      libdeflate_zlib_compress(compressor, bytes.data(), bytes.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

struct PngForm {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  int channels = 3;                         // 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA
  int pieces = 1;                           // IDAT chunks
  unsigned noise = 16;                      // levels of noise
  std::vector<int> filters{0, 1, 2, 3, 4};  // of the rows, in turn

  std::size_t row_bytes() const { return std::size_t{width} * static_cast<std::size_t>(channels); }

  std::string header() const {
    constexpr std::array<char, 4> kColorTypes = {0, 4, 2, 6};
    const char color_type = kColorTypes[static_cast<std::size_t>(channels) - 1];
    return png_chunk("IHDR", big_endian(width) + big_endian(height) + '\x08' + color_type +
                                 std::string(3, '\0'));
  }
};

// Returns rows as they are stored: filtered, each after the byte of its filter. What is filtered is
// noise, so all filters have an effect.
inline std::string make_png_rows(const PngForm& form, std::mt19937_64& random) {
  std::string rows;
  for (std::uint32_t y = 0; y < form.height; ++y) {
    rows.push_back(static_cast<char>(form.filters[y % form.filters.size()]));
    for (std::size_t i = 0; i < form.row_bytes(); ++i) {
      rows.push_back(static_cast<char>(random() % form.noise));
    }
  }
  return rows;
}

// Returns IDAT chunks of compressed bytes, some of them empty if there are more pieces than bytes.
inline std::string png_pixels(const std::string& compressed, int pieces) {
  const auto count = static_cast<std::size_t>(pieces);
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = compressed.size() * i / count;
    const std::size_t end = compressed.size() * (i + 1) / count;
    out += png_chunk("IDAT", compressed.substr(begin, end - begin));
  }
  return out;
}

// Returns a PNG of rows as they are stored, whether they fit the header or not.
inline std::string write_png(const PngForm& form, const std::string& rows) {
  return kPngSignature + form.header() + png_pixels(compress_zlib(rows), form.pieces) +
         png_chunk("IEND", "");
}

}  // namespace tio::test
