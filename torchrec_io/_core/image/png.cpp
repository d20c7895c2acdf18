#include "image/png.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tio {
namespace {

// A filter subtracts from each byte a prediction from its neighbors: the byte of the pixel to the
// left, of the pixel above, and of the pixel to the left of that. Missing neighbors count as 0.

int paeth(int left, int up, int corner) {
  const int guess = left + up - corner;
  const int to_left = std::abs(guess - left);
  const int to_up = std::abs(guess - up);
  const int to_corner = std::abs(guess - corner);
  if (to_left <= to_up && to_left <= to_corner) return left;
  return to_up <= to_corner ? up : corner;
}

struct Average {
  static int predict(int left, int up, int) { return (left + up) / 2; }
};

struct Paeth {
  static int predict(int left, int up, int corner) { return paeth(left, up, corner); }
};

// Adds the predictions to the bytes from `begin` on.
template <class Filter>
void add_predictions(std::uint8_t* row, const std::uint8_t* above, std::size_t begin,
                     std::size_t size, std::size_t pixel_bytes) {
  for (std::size_t i = begin; i < size; ++i) {
    const bool is_first = i < pixel_bytes;
    const int left = is_first ? 0 : row[i - pixel_bytes];
    const int corner = is_first ? 0 : above[i - pixel_bytes];
    row[i] = static_cast<std::uint8_t>(row[i] + Filter::predict(left, above[i], corner));
  }
}

#if defined(__x86_64__)

// Pixels are predicted one after another, all their bytes at once: in SSE2, which every x86-64
// processor has. Bytes are computed with 16 bits.

// Pixels are loaded with the bytes that follow them, up to 4 or 8, because loading 3 or 6 bytes is
// slow. These lanes are computed, too, but not stored.
template <std::size_t kBytes>
constexpr std::size_t kLoaded = kBytes <= 4 ? 4 : 8;

template <std::size_t kBytes>
__m128i load_pixel(const std::uint8_t* at) {
  if constexpr (kLoaded<kBytes> == 4) {
    std::int32_t bits = 0;
    std::memcpy(&bits, at, 4);
    return _mm_unpacklo_epi8(_mm_cvtsi32_si128(bits), _mm_setzero_si128());
  }
  return _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)),
                           _mm_setzero_si128());
}

template <std::size_t kBytes>
void store_pixel(std::uint8_t* at, __m128i pixel) {
  const auto bits = _mm_cvtsi128_si64(_mm_packus_epi16(pixel, pixel));
  std::memcpy(at, &bits, kBytes);
}

__m128i absolute(__m128i x) { return _mm_max_epi16(x, _mm_sub_epi16(_mm_setzero_si128(), x)); }

__m128i choose(__m128i mask, __m128i a, __m128i b) {
  return _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b));
}

__m128i predict(Average, __m128i left, __m128i up, __m128i) {
  return _mm_srli_epi16(_mm_add_epi16(left, up), 1);
}

__m128i predict(Paeth, __m128i left, __m128i up, __m128i corner) {
  const __m128i from_left = _mm_sub_epi16(up, corner);
  const __m128i from_up = _mm_sub_epi16(left, corner);
  const __m128i to_left = absolute(from_left);
  const __m128i to_up = absolute(from_up);
  const __m128i to_corner = absolute(_mm_add_epi16(from_left, from_up));
  const __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_up));
  return choose(_mm_cmpeq_epi16(least, to_left), left,
                choose(_mm_cmpeq_epi16(least, to_up), up, corner));
}

template <class Filter, std::size_t kBytes>
void add_pixels(std::uint8_t* row, const std::uint8_t* above, std::size_t size) {
  __m128i left = _mm_setzero_si128();
  __m128i corner = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + kLoaded<kBytes> <= size; i += kBytes) {
    const __m128i up = load_pixel<kBytes>(above + i);
    // The upper bytes of both are 0, and remain so.
    left = _mm_add_epi8(load_pixel<kBytes>(row + i), predict(Filter(), left, up, corner));
    corner = up;
    store_pixel<kBytes>(row + i, left);
  }
  add_predictions<Filter>(row, above, i, size, kBytes);
}

#endif

template <class Filter>
void add_all(std::uint8_t* row, const std::uint8_t* above, std::size_t size,
             std::size_t pixel_bytes) {
#if defined(__x86_64__)
  switch (pixel_bytes) {
    case 3: return add_pixels<Filter, 3>(row, above, size);
    case 4: return add_pixels<Filter, 4>(row, above, size);
    case 6: return add_pixels<Filter, 6>(row, above, size);
    case 8: return add_pixels<Filter, 8>(row, above, size);
    default: break;
  }
#endif
  add_predictions<Filter>(row, above, 0, size, pixel_bytes);
}

void add_left(std::uint8_t* row, std::size_t size, std::size_t pixel_bytes) {
  for (std::size_t i = pixel_bytes; i < size; ++i) {
    row[i] = static_cast<std::uint8_t>(row[i] + row[i - pixel_bytes]);
  }
}

void add_above(std::uint8_t* row, const std::uint8_t* above, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) row[i] = static_cast<std::uint8_t>(row[i] + above[i]);
}

bool unfilter_row(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above,
                  std::size_t size, std::size_t pixel_bytes) {
  switch (filter) {
    case 0: return true;
    case 1: add_left(row, size, pixel_bytes); return true;
    case 2: add_above(row, above, size); return true;
    case 3: add_all<Average>(row, above, size, pixel_bytes); return true;
    case 4: add_all<Paeth>(row, above, size, pixel_bytes); return true;
    default: return false;
  }
}

// The row above the first one has zeros only.
bool unfilter_first_row(std::uint8_t filter, std::uint8_t* row, std::size_t size,
                        std::size_t pixel_bytes) {
  if (filter == 3) {
    for (std::size_t i = pixel_bytes; i < size; ++i) {
      row[i] = static_cast<std::uint8_t>(row[i] + row[i - pixel_bytes] / 2);
    }
    return true;
  }
  // Paeth's prediction is the byte to the left.
  if (filter == 1 || filter == 4) add_left(row, size, pixel_bytes);
  return filter <= 4;
}

}  // namespace

bool unfilter_png(MutableBytes data, std::size_t row_bytes, std::size_t pixel_bytes) {
  if (row_bytes == 0 || row_bytes >= data.size() || pixel_bytes == 0 || pixel_bytes > 8) {
    return data.empty();
  }
  if (data.size() % (row_bytes + 1) != 0) return false;
  const std::span<std::uint8_t> rows(reinterpret_cast<std::uint8_t*>(data.data()), data.size());
  const std::uint8_t* above = nullptr;
  for (std::size_t at = 0; at < rows.size(); at += row_bytes + 1) {
    std::uint8_t* const row = rows.subspan(at + 1, row_bytes).data();
    const bool is_known = above == nullptr
                              ? unfilter_first_row(rows[at], row, row_bytes, pixel_bytes)
                              : unfilter_row(rows[at], row, above, row_bytes, pixel_bytes);
    if (!is_known) return false;
    above = row;
  }
  return true;
}

}  // namespace tio
