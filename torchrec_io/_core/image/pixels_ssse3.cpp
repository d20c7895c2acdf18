#include "image/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TIO_TARGET __attribute__((target("ssse3")))

namespace tio::pixel_paths {

bool has_shuffle() {
  static const bool supported = __builtin_cpu_supports("ssse3") != 0;
  return supported;
}

TIO_TARGET std::size_t to_planes(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out,
                                 std::int64_t plane_step, bool is_reversed) {
  // Sorts four pixels into four levels of each channel.
  const __m128i by_channel = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i reverse = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  std::size_t x = 0;
  for (; x + 16 <= pixels; x += 16) {
    const auto* from = reinterpret_cast<const __m128i*>(row + x * 4);
    const __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(from), by_channel);
    const __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), by_channel);
    const __m128i c = _mm_shuffle_epi8(_mm_loadu_si128(from + 2), by_channel);
    const __m128i d = _mm_shuffle_epi8(_mm_loadu_si128(from + 3), by_channel);
    const __m128i red_green_low = _mm_unpacklo_epi32(a, b);
    const __m128i red_green_high = _mm_unpacklo_epi32(c, d);
    const __m128i blue_low = _mm_unpackhi_epi32(a, b);
    const __m128i blue_high = _mm_unpackhi_epi32(c, d);
    __m128i planes[3] = {_mm_unpacklo_epi64(red_green_low, red_green_high),
                         _mm_unpackhi_epi64(red_green_low, red_green_high),
                         _mm_unpacklo_epi64(blue_low, blue_high)};
    const auto at = static_cast<std::int64_t>(x);
    for (int channel = 0; channel < 3; ++channel) {
      std::uint8_t* const plane = out + channel * plane_step;
      if (is_reversed) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(plane - at - 15),
                         _mm_shuffle_epi8(planes[channel], reverse));
      } else {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(plane + at), planes[channel]);
      }
    }
  }
  return x;
}

TIO_TARGET std::size_t to_triples(const std::uint8_t* row, std::size_t pixels, std::uint8_t* out,
                                  bool is_reversed) {
  const __m128i forward = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m128i backward = _mm_setr_epi8(-1, -1, -1, -1, 12, 13, 14, 8, 9, 10, 4, 5, 6, 0, 1, 2);
  std::size_t x = 0;
  // 16 bytes are stored for four pixels: the pixels after them are written later, and must be two
  // more in this row.
  for (; x + 6 <= pixels; x += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + x * 4));
    std::uint8_t* const at = is_reversed ? out - x * 3 - 13 : out + x * 3;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at),
                     _mm_shuffle_epi8(four, is_reversed ? backward : forward));
  }
  return x;
}

TIO_TARGET std::size_t from_triples(const std::uint8_t* row, std::size_t pixels,
                                    std::uint8_t* out) {
  const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  std::size_t x = 0;
  // 16 bytes are loaded for four pixels: two more pixels must follow in this row.
  for (; x + 6 <= pixels; x += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + x * 3));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x * 4), _mm_shuffle_epi8(four, spread));
  }
  return x;
}

}  // namespace tio::pixel_paths

#endif
