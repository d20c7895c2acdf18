#include "image/resample_paths.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define TIO_TARGET __attribute__((target("avx2")))

namespace tio::resample_paths {
namespace {

// Returns two weights, of 16 bits each, in every lane of 32 bits.
TIO_TARGET inline __m256i pair_of(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof(pair));
  return _mm256_set1_epi32(pair);
}

TIO_TARGET inline __m256i widen(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Adds 16 values of each row to `low` and `high`, in the order that packs_epi32() restores.
TIO_TARGET inline void add_pair(const std::uint8_t* first, const std::uint8_t* second,
                                __m256i weights, __m256i& low, __m256i& high) {
  const __m256i a = widen(first);
  const __m256i b = widen(second);
  low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
  high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
}

}  // namespace

TIO_TARGET void rows_avx2(const std::uint8_t* const* rows, const std::int16_t* weights,
                          std::int64_t count, std::size_t size, std::int16_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (kRowShift - 1));
  std::size_t at = 0;
  for (; at + 16 <= size; at += 16) {
    __m256i low = half;
    __m256i high = half;
    std::int64_t row = 0;
    for (; row + 2 <= count; row += 2) {
      add_pair(rows[row] + at, rows[row + 1] + at, pair_of(weights + row), low, high);
    }
    // The weight after the last one is read, too: weights are padded with zeros, or belong to
    // another pixel. The same row takes its part with a weight of 0.
    if (row < count) {
      const __m256i last = _mm256_set1_epi32(static_cast<std::uint16_t>(weights[row]));
      add_pair(rows[row] + at, rows[row] + at, last, low, high);
    }
    const __m256i packed =
        _mm256_packs_epi32(_mm256_srai_epi32(low, kRowShift), _mm256_srai_epi32(high, kRowShift));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at), packed);
  }
  rows_portable(rows, weights, count, at, size, out);
}

namespace {

// Sums of the weighted pixels of one resized pixel: four channels in the lower half, of pixels with
// even numbers, and in the upper half of the others.
TIO_TARGET inline __m256i weighted_sum(const std::int16_t* from, const std::int16_t* weight,
                                       std::int64_t taps) {
  // Puts the same channels of two pixels beside each other.
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  // Spreads four weights: the first two over the lower half, the others over the upper one.
  const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  __m256i sums = _mm256_setzero_si256();
  for (std::int64_t tap = 0; tap < taps; tap += 4) {
    const __m256i pixels = _mm256_shuffle_epi8(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + tap * 4)), order);
    const __m256i four = _mm256_permutevar8x32_epi32(
        _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weight + tap))),
        spread);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pixels, four));
  }
  return sums;
}

// Adds the halves of two sums: the first sum in the lower half, the second in the upper one.
TIO_TARGET inline __m256i join_halves(__m256i first, __m256i second) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

}  // namespace

TIO_TARGET void columns_avx2(const std::int16_t* row, const ResampleWeights& weights,
                             std::uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (kColumnShift - 1));
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const std::int64_t size = weights.size();
  const std::int64_t taps = weights.taps();
  const auto sum_of = [&](std::int64_t pixel) TIO_TARGET {
    const std::int16_t* from = row + (weights.first(pixel) - weights.first(0)) * 4;
    return weighted_sum(from, weights.weights(pixel), taps);
  };
  std::int64_t pixel = 0;
  for (; pixel + 4 <= size; pixel += 4) {
    const __m256i two = join_halves(sum_of(pixel), sum_of(pixel + 1));
    const __m256i others = join_halves(sum_of(pixel + 2), sum_of(pixel + 3));
    const __m256i values =
        _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(two, half), kColumnShift),
                           _mm256_srai_epi32(_mm256_add_epi32(others, half), kColumnShift));
    // Pixels 0 and 2 are in the lower half, 1 and 3 in the upper one.
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(values, values), in_order);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + pixel * 4), _mm256_castsi256_si128(bytes));
  }
  for (; pixel < size; ++pixel) {
    const __m256i sum = sum_of(pixel);
    const __m256i both = _mm256_add_epi32(join_halves(sum, sum), half);
    const __m128i values = _mm_srai_epi32(_mm256_castsi256_si128(both), kColumnShift);
    const __m128i packed = _mm_packus_epi16(_mm_packs_epi32(values, values), values);
    const std::int32_t bytes = _mm_cvtsi128_si32(packed);
    std::memcpy(out + pixel * 4, &bytes, sizeof(bytes));
  }
}

}  // namespace tio::resample_paths

#endif
