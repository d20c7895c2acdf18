#include "wire/varint.h"

#include <array>

#include "wire/cursor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tio {
namespace {

constexpr std::uint64_t kContinue = 0x8080808080808080U;

#if defined(__x86_64__)

// For each set of continuation bytes among eight, which 16-bit lanes remain when they are dropped.
constexpr auto make_compress_table() {
  std::array<std::array<std::uint8_t, 16>, 256> table{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t kept = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) continue;
      table[mask][kept++] = static_cast<std::uint8_t>(2 * lane);
      table[mask][kept++] = static_cast<std::uint8_t>(2 * lane + 1);
    }
    while (kept < 16) table[mask][kept++] = 0x80;  // pshufb: zero
  }
  return table;
}

alignas(64) constexpr auto kCompress = make_compress_table();

// Decodes values of one or two bytes, eight bytes a step and without branching on their lengths:
// every byte is joined with the one before it if that one continues, then the lanes of the bytes
// that continue are squeezed out. Stops before a longer value, or where fewer than eight bytes are
// left or eight values fit.
__attribute__((target("avx2"))) std::size_t read_short_values(Bytes packed, std::size_t& at,
                                                              std::int64_t* out, std::size_t most) {
  std::size_t done = 0;
  std::uint64_t carry = 0;  // the byte before, if it continues
  while (packed.size() - at >= 8 && most - done >= 8) {
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
  if (carry) --at;  // a value that was begun is left to the caller
  return done;
}

#define TIO_FAST __attribute__((target("avx2,popcnt")))

// A mask of the bytes, of 64, that end a value.
TIO_FAST inline std::uint64_t ends_of(const std::byte* bytes) {
  const auto* from = reinterpret_cast<const __m256i*>(bytes);
  const auto low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(from)));
  const auto high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(from + 1)));
  return ~(std::uint64_t{high} << 32 | low);
}

constexpr std::size_t kBlock = 64;
constexpr std::size_t kReadable = kBlock + 8;  // a value is loaded with what comes behind it

// The block at `at`, of which kReadable bytes can be read: at the end of the list a copy of it.
inline const std::byte* readable_block(Bytes packed, std::size_t at, std::byte* copy) {
  const std::size_t left = packed.size() - at;
  if (left >= kReadable) return packed.data() + at;
  std::memset(copy, 0, kReadable);
  std::memcpy(copy, packed.data() + at, left);
  return copy;
}

// Decodes the values that end at `ends` of a block, of which kReadable bytes can be read. Stops
// before a value of more than eight bytes. Returns how many bytes they take.
TIO_FAST std::size_t read_block(const std::byte* block, std::uint64_t ends, std::int64_t* out,
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

// Decodes values of up to eight bytes, of any mixture of sizes: where all values of a block end is
// looked up first, so that none has to wait for the size of the one before. Stops before a longer
// value, or one that `most` has no room for.
TIO_FAST std::size_t read_mixed_values(Bytes packed, std::size_t& at, std::int64_t* out,
                                       std::size_t most) {
  std::size_t done = 0;
  while (at < packed.size()) {
    const std::size_t left = packed.size() - at;
    std::byte copy[kReadable];
    const std::byte* block = readable_block(packed, at, copy);
    std::uint64_t ends = ends_of(block);
    if (left < kBlock) ends &= (std::uint64_t{1} << left) - 1;
    if (static_cast<std::size_t>(__builtin_popcountll(ends)) > most - done) break;
    const std::size_t taken = read_block(block, ends, out, done);
    at += taken;
    if (taken == 0) break;
  }
  return done;
}

TIO_FAST std::uint64_t count_ends(Bytes packed, std::size_t& at) {
  std::uint64_t count = 0;
  for (; packed.size() - at >= kBlock; at += kBlock) {
    count += static_cast<std::uint64_t>(__builtin_popcountll(ends_of(packed.data() + at)));
  }
  return count;
}

#undef TIO_FAST

// ---- the same with registers of 512 bits, and with an instruction that squeezes ----
//
// Functions for other processors cannot be inlined into these, so the loops stand twice.

// GCC 12 takes what its own intrinsics leave undefined for a mistake (its bug 105593).
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define TIO_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")))

// Values of one or two bytes as above, 32 bytes a step.
TIO_WIDE std::size_t read_short_wide(Bytes packed, std::size_t& at, std::int64_t* out,
                                     std::size_t most) {
  std::size_t done = 0;
  std::uint32_t carry = 0;  // the byte before, if it continues
  while (packed.size() - at >= 32 && most - done >= 32) {
    const auto* from = reinterpret_cast<const __m256i*>(packed.data() + at);
    const __m256i raw = _mm256_loadu_si256(from);
    const std::uint32_t continues = _mm256_movepi8_mask(raw);
    if (continues & (continues << 1 | (carry >> 7))) break;
    const __m512i bytes = _mm512_cvtepu8_epi16(raw);
    // Every byte's neighbour below: all moved up by one, behind the byte carried over.
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
  if (carry) --at;  // a value that was begun is left to the caller
  return done;
}

TIO_WIDE std::size_t read_mixed_wide(Bytes packed, std::size_t& at, std::int64_t* out,
                                     std::size_t most) {
  std::size_t done = 0;
  while (at < packed.size()) {
    const std::size_t left = packed.size() - at;
    std::byte copy[kReadable];
    const std::byte* block = readable_block(packed, at, copy);
    std::uint64_t ends = ~_mm512_movepi8_mask(_mm512_loadu_si512(block));
    if (left < kBlock) ends &= (std::uint64_t{1} << left) - 1;
    if (static_cast<std::size_t>(__builtin_popcountll(ends)) > most - done) break;
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

#undef TIO_WIDE
#pragma GCC diagnostic pop

VarintPath find_best_path() {
  const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
  const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
  if (!fast) return VarintPath::portable;
  return wide ? VarintPath::avx512 : VarintPath::avx2;
}

std::size_t read_fast(VarintPath path, Bytes packed, std::size_t& at, std::int64_t* out,
                      std::size_t most) {
  if (path == VarintPath::avx512) {
    const std::size_t done = read_short_wide(packed, at, out, most);
    return done + read_mixed_wide(packed, at, out + done, most - done);
  }
  const std::size_t done = read_short_values(packed, at, out, most);
  return done + read_mixed_values(packed, at, out + done, most - done);
}

#else

std::size_t read_fast(VarintPath, Bytes, std::size_t&, std::int64_t*, std::size_t) { return 0; }
std::uint64_t count_ends(Bytes, std::size_t&) { return 0; }
VarintPath find_best_path() { return VarintPath::portable; }

#endif

}  // namespace

VarintPath best_varint_path() {
  static const VarintPath best = find_best_path();
  return best;
}

bool count_varints(Bytes packed, std::uint64_t& count) {
  std::size_t at = 0;
  const bool is_fast = packed.size() >= 64 && best_varint_path() != VarintPath::portable;
  count = is_fast ? count_ends(packed, at) : 0;
  for (; packed.size() - at >= 8; at += 8) {
    const auto ends = ~load<std::uint64_t>(packed, at) & kContinue;
    count += static_cast<std::uint64_t>(__builtin_popcountll(ends));
  }
  for (; at < packed.size(); ++at) count += load<std::uint8_t>(packed, at) < 0x80;
  return packed.empty() || load<std::uint8_t>(packed, packed.size() - 1) < 0x80;
}

VarintReader::VarintReader(Bytes packed, VarintPath path) : packed_(packed), path_(path) {}

bool VarintReader::read_one(std::int64_t& out) {
  if (packed_.size() - at_ >= 8) {
    const auto word = load<std::uint64_t>(packed_, at_);
    if (const std::uint64_t ends = ~word & kContinue) {
      const auto size = static_cast<unsigned>(__builtin_ctzll(ends)) / 8 + 1;
      at_ += size;
      return decode_word(word, size, out);
    }
  }
  Cursor cursor(packed_.subspan(at_));
  std::uint64_t value = 0;
  if (!cursor.read_varint(value)) {
    bad_ = true;
    return false;
  }
  at_ += cursor.position();
  out = static_cast<std::int64_t>(value);
  return true;
}

std::size_t VarintReader::read(std::int64_t* out, std::size_t most) {
  // How many values are decoded one by one before the fast path is tried again.
  constexpr std::size_t kStep = 8;
  std::size_t done = 0;
  while (done < most && at_ < packed_.size()) {
    if (path_ != VarintPath::portable) {
      done += read_fast(path_, packed_, at_, out + done, most - done);
    }
    for (std::size_t i = 0; i < kStep && done < most && at_ < packed_.size(); ++i) {
      if (!read_one(out[done])) return done;
      ++done;
    }
  }
  return done;
}

}  // namespace tio
