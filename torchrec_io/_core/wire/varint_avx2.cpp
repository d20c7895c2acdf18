#include "wire/varint_paths.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>

#include "wire/varint.h"

#define TIO_TARGET __attribute__((target("avx2,popcnt")))

namespace tio::varint_paths {
namespace {

constexpr std::uint64_t kContinue = 0x8080808080808080U;

// For each set of continuation bytes among eight: the 16-bit lanes that remain when those of the
// continuation bytes are removed.
constexpr auto make_compress_table() {
  std::array<std::array<std::uint8_t, 16>, 256> table{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t kept = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) continue;
      table[mask][kept++] = static_cast<std::uint8_t>(2 * lane);
      table[mask][kept++] = static_cast<std::uint8_t>(2 * lane + 1);
    }
    while (kept < 16) table[mask][kept++] = 0x80;  // pshufb writes zero
  }
  return table;
}

alignas(64) constexpr auto kCompress = make_compress_table();

// Decodes values of one or two bytes, eight bytes per step, without branches on their lengths. Each
// byte is joined with the byte before it if that one continues. Then the lanes of the continuation
// bytes are removed. Stops before a longer value, or if fewer than eight bytes or free slots are
// left.
TIO_TARGET std::size_t decode_short(Bytes packed, std::size_t& at, std::int64_t* out,
                                    std::size_t limit) {
  std::size_t done = 0;
  std::uint64_t carry = 0;  // the previous byte if it continues, else 0
  while (packed.size() - at >= 8 && limit - done >= 8) {
    const auto word = load<std::uint64_t>(packed, at);
    const std::uint64_t before = word << 8 | carry;
    if (word & before & kContinue) break;
    const __m128i raw = _mm_cvtsi64_si128(static_cast<long long>(word));
    const __m128i bytes = _mm_cvtepu8_epi16(raw);
    const __m128i previous = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<long long>(before)));
    const __m128i joined =
        _mm_or_si128(_mm_slli_epi16(bytes, 7), _mm_and_si128(previous, _mm_set1_epi16(0x7f)));
    const __m128i continued = _mm_cmpgt_epi16(previous, _mm_set1_epi16(0x7f));
    const __m128i values = _mm_blendv_epi8(bytes, joined, continued);
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(raw)) & 0xff;
    const __m128i keep = _mm_load_si128(reinterpret_cast<const __m128i*>(kCompress[mask].data()));
    const __m128i squeezed = _mm_shuffle_epi8(values, keep);
    auto* target = reinterpret_cast<__m256i*>(out + done);
    _mm256_storeu_si256(target, _mm256_cvtepu16_epi64(squeezed));
    _mm256_storeu_si256(target + 1, _mm256_cvtepu16_epi64(_mm_srli_si128(squeezed, 8)));
    done += 8 - static_cast<std::size_t>(__builtin_popcount(mask));
    at += 8;
    carry = word >> 63 ? word >> 56 : 0;
  }
  if (carry) --at;  // the caller decodes a value that was begun
  return done;
}

// Returns a mask of the bytes, of 64, that end a value.
TIO_TARGET inline std::uint64_t ends_of(const std::byte* bytes) {
  const auto* from = reinterpret_cast<const __m256i*>(bytes);
  const auto low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(from)));
  const auto high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(from + 1)));
  return ~(std::uint64_t{high} << 32 | low);
}

// Decodes the values that end at `ends` of a readable block, and returns how many bytes they take.
// Stops before a value of more than eight bytes.
TIO_TARGET std::size_t decode_block(const std::byte* block, std::uint64_t ends, std::int64_t* out,
                                    std::size_t& done) {
  std::size_t at = 0;
  for (; ends != 0; ends &= ends - 1) {
    const std::size_t next = static_cast<unsigned>(__builtin_ctzll(ends)) + 1;
    if (next - at > 8) break;
    std::uint64_t word;
    std::memcpy(&word, block + at, sizeof(word));
    out[done++] = squeeze(word, static_cast<unsigned>(next - at));
    at = next;
  }
  return at;
}

// Decodes values of up to eight bytes, of mixed sizes. The ends of all values of a block are found
// first, so that no value waits for the size of the one before it. Stops before a longer value, or
// before a block with more values than free slots.
TIO_TARGET std::size_t decode_mixed(Bytes packed, std::size_t& at, std::int64_t* out,
                                    std::size_t limit) {
  std::size_t done = 0;
  while (at < packed.size()) {
    const std::size_t left = packed.size() - at;
    std::byte copy[kReadable];
    const std::byte* block = readable_block(packed, at, copy);
    std::uint64_t ends = ends_of(block);
    if (left < kBlock) ends &= (std::uint64_t{1} << left) - 1;
    if (static_cast<std::size_t>(__builtin_popcountll(ends)) > limit - done) break;
    const std::size_t taken = decode_block(block, ends, out, done);
    at += taken;
    if (taken == 0) break;
  }
  return done;
}

}  // namespace

std::size_t decode_avx2(Bytes packed, std::size_t& at, std::int64_t* out, std::size_t limit) {
  const std::size_t done = decode_short(packed, at, out, limit);
  return done + decode_mixed(packed, at, out + done, limit - done);
}

TIO_TARGET std::uint64_t count_avx2(Bytes packed, std::size_t& at) {
  std::uint64_t count = 0;
  for (; packed.size() - at >= kBlock; at += kBlock) {
    count += static_cast<std::uint64_t>(__builtin_popcountll(ends_of(packed.data() + at)));
  }
  return count;
}

}  // namespace tio::varint_paths

#endif
