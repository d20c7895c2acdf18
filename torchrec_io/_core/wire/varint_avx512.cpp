#include "wire/varint_paths.h"

#if defined(__x86_64__)

// GCC 12 reports its own intrinsics as uninitialized (GCC bug 105593).
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#define TIO_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")))

namespace tio::varint_paths {
namespace {

// Decodes values of one or two bytes, 32 bytes per step, as varint_avx2.cpp does for eight. Here
// one instruction removes the lanes of the continuation bytes.
TIO_TARGET std::size_t decode_short(Bytes packed, std::size_t& at, std::int64_t* out,
                                    std::size_t limit) {
  std::size_t done = 0;
  std::uint32_t carry = 0;  // the previous byte if it continues, else 0
  while (packed.size() - at >= 32 && limit - done >= 32) {
    const auto* from = reinterpret_cast<const __m256i*>(packed.data() + at);
    const __m256i raw = _mm256_loadu_si256(from);
    const std::uint32_t continues = _mm256_movepi8_mask(raw);
    if (continues & (continues << 1 | (carry >> 7))) break;
    const __m512i bytes = _mm512_cvtepu8_epi16(raw);
    // The byte before each byte: all bytes moved up by one, after the carried byte.
    const __m256i moved = _mm256_alignr_epi8(raw, _mm256_permute2x128_si256(raw, raw, 0x08), 15);
    const __m256i before =
        _mm256_mask_mov_epi8(moved, 1, _mm256_set1_epi8(static_cast<char>(carry)));
    const __m512i previous = _mm512_cvtepu8_epi16(before);
    const __mmask32 joins = continues << 1 | (carry >> 7);
    const __m512i joined = _mm512_or_si512(_mm512_slli_epi16(bytes, 7),
                                           _mm512_and_si512(previous, _mm512_set1_epi16(0x7f)));
    const __m512i values = _mm512_mask_mov_epi16(bytes, joins, joined);
    const __m512i squeezed = _mm512_maskz_compress_epi16(~continues, values);
    __m512i* target = reinterpret_cast<__m512i*>(out + done);
    const __m128i quarters[4] = {
        _mm512_castsi512_si128(squeezed), _mm512_extracti32x4_epi32(squeezed, 1),
        _mm512_extracti32x4_epi32(squeezed, 2), _mm512_extracti32x4_epi32(squeezed, 3)};
    for (std::size_t i = 0; i < 4; ++i) {
      _mm512_storeu_si512(target + i, _mm512_cvtepu16_epi64(quarters[i]));
    }
    done += 32 - static_cast<std::size_t>(__builtin_popcount(continues));
    at += 32;
    carry = continues >> 31 ? std::to_integer<std::uint32_t>(packed[at - 1]) : 0;
  }
  if (carry) --at;  // the caller decodes a value that was begun
  return done;
}

// Decodes values of up to eight bytes, of mixed sizes, as varint_avx2.cpp does. Here one
// instruction extracts the bits of a value.
TIO_TARGET std::size_t decode_mixed(Bytes packed, std::size_t& at, std::int64_t* out,
                                    std::size_t limit) {
  std::size_t done = 0;
  while (at < packed.size()) {
    const std::size_t left = packed.size() - at;
    std::byte copy[kReadable];
    const std::byte* block = readable_block(packed, at, copy);
    std::uint64_t ends = ~_mm512_movepi8_mask(_mm512_loadu_si512(block));
    if (left < kBlock) ends &= (std::uint64_t{1} << left) - 1;
    if (static_cast<std::size_t>(__builtin_popcountll(ends)) > limit - done) break;
    std::size_t taken = 0;
    for (; ends != 0; ends &= ends - 1) {
      const std::size_t next = static_cast<unsigned>(__builtin_ctzll(ends)) + 1;
      if (next - taken > 8) break;
      std::uint64_t word;
      std::memcpy(&word, block + taken, sizeof(word));
      const std::uint64_t seven_bits = 0x7f7f7f7f7f7f7f7fU >> (64 - 8 * (next - taken));
      out[done++] = static_cast<std::int64_t>(_pext_u64(word, seven_bits));
      taken = next;
    }
    at += taken;
    if (taken == 0) break;
  }
  return done;
}

}  // namespace

std::size_t decode_avx512(Bytes packed, std::size_t& at, std::int64_t* out, std::size_t limit) {
  const std::size_t done = decode_short(packed, at, out, limit);
  return done + decode_mixed(packed, at, out + done, limit - done);
}

}  // namespace tio::varint_paths

#pragma GCC diagnostic pop

#endif
