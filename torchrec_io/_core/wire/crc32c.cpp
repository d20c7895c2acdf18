#include "wire/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define TIO_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#define TIO_CRC_TARGET __attribute__((target("+crc")))
#endif

namespace tio {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // reflected

using Table = std::array<std::uint32_t, 256>;

constexpr std::array<Table, 8> make_slicing_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr auto kSlicing = make_slicing_tables();

// Slicing-by-8. All functions below take and give the CRC register, that is the inverted CRC.
std::uint32_t update_portable(std::uint32_t state, Bytes bytes) {
  std::size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    const auto low = load<std::uint32_t>(bytes, at) ^ state;
    const auto high = load<std::uint32_t>(bytes, at + 4);
    state = kSlicing[7][low & 0xff] ^ kSlicing[6][(low >> 8) & 0xff] ^
            kSlicing[5][(low >> 16) & 0xff] ^ kSlicing[4][low >> 24] ^ kSlicing[3][high & 0xff] ^
            kSlicing[2][(high >> 8) & 0xff] ^ kSlicing[1][(high >> 16) & 0xff] ^
            kSlicing[0][high >> 24];
  }
  for (; at < bytes.size(); ++at) {
    state = (state >> 8) ^ kSlicing[0][(state ^ load<std::uint8_t>(bytes, at)) & 0xff];
  }
  return state;
}

#if defined(TIO_CRC_TARGET)

// The CRC instruction takes three cycles but one can start each cycle, so long inputs are cut into
// three lanes that run at once. A lane's CRC is then moved past the bytes that follow it: appending
// `kLane` zero bytes is a linear map of the register, tabulated a byte at a time.
template <std::size_t kLane>
constexpr std::array<Table, 4> make_shift_tables() {
  // Column i of the map: what the register with only bit i set becomes.
  std::array<std::uint32_t, 32> columns{};
  for (int bit = 0; bit < 32; ++bit) columns[bit] = std::uint32_t{1} << bit;
  for (auto& column : columns) {
    std::uint32_t crc = column;
    for (std::size_t byte = 0; byte < kLane; ++byte) crc = (crc >> 8) ^ kSlicing[0][crc & 0xff];
    column = crc;
  }
  std::array<Table, 4> tables{};
  for (std::size_t part = 0; part < 4; ++part) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = 0;
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if (byte >> bit & 1) crc ^= columns[part * 8 + bit];
      }
      tables[part][byte] = crc;
    }
  }
  return tables;
}

std::uint32_t shift(const std::array<Table, 4>& tables, std::uint32_t crc) {
  return tables[0][crc & 0xff] ^ tables[1][(crc >> 8) & 0xff] ^ tables[2][(crc >> 16) & 0xff] ^
         tables[3][crc >> 24];
}

#if defined(__x86_64__)
TIO_CRC_TARGET inline std::uint64_t step8(std::uint64_t state, std::uint64_t word) {
  return _mm_crc32_u64(state, word);
}
TIO_CRC_TARGET inline std::uint32_t step1(std::uint32_t state, std::uint8_t byte) {
  return _mm_crc32_u8(state, byte);
}
#else
TIO_CRC_TARGET inline std::uint64_t step8(std::uint64_t state, std::uint64_t word) {
  return __crc32cd(static_cast<std::uint32_t>(state), word);
}
TIO_CRC_TARGET inline std::uint32_t step1(std::uint32_t state, std::uint8_t byte) {
  return __crc32cb(state, byte);
}
#endif

constexpr std::size_t kLongLane = 2048;
constexpr std::size_t kShortLane = 128;
// Built on first use: as constants they would cost more compile steps than compilers allow.
const auto kLongShift = make_shift_tables<kLongLane>();
const auto kShortShift = make_shift_tables<kShortLane>();

template <std::size_t kLane>
TIO_CRC_TARGET std::size_t run_lanes(std::uint32_t& state, Bytes bytes, std::size_t at,
                                     const std::array<Table, 4>& tables) {
  while (bytes.size() - at >= 3 * kLane) {
    // Processors foresee one stream of bytes, but not three that jump. Saves a quarter of the time
    // for a large record that memory has to bring.
    const bool more = kLane == kLongLane && bytes.size() - at >= 6 * kLane;
    std::uint64_t first = state;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      if (more && i % 64 == 0) {
        const std::byte* next = bytes.data() + at + 3 * kLane + i;
        __builtin_prefetch(next);
        __builtin_prefetch(next + kLane);
        __builtin_prefetch(next + 2 * kLane);
      }
      first = step8(first, load<std::uint64_t>(bytes, at + i));
      second = step8(second, load<std::uint64_t>(bytes, at + kLane + i));
      third = step8(third, load<std::uint64_t>(bytes, at + 2 * kLane + i));
    }
    state = shift(tables, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    state = shift(tables, state) ^ static_cast<std::uint32_t>(third);
    at += 3 * kLane;
  }
  return at;
}

TIO_CRC_TARGET std::uint32_t update_hardware(std::uint32_t state, Bytes bytes) {
  std::size_t at = run_lanes<kLongLane>(state, bytes, 0, kLongShift);
  at = run_lanes<kShortLane>(state, bytes, at, kShortShift);
  for (; bytes.size() - at >= 8; at += 8) {
    state = static_cast<std::uint32_t>(step8(state, load<std::uint64_t>(bytes, at)));
  }
  for (; at < bytes.size(); ++at) state = step1(state, load<std::uint8_t>(bytes, at));
  return state;
}

bool hardware_available() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return true;  // every 64-bit Apple processor has the instruction
#endif
}

#else

std::uint32_t update_hardware(std::uint32_t state, Bytes bytes) {
  return update_portable(state, bytes);
}
bool hardware_available() { return false; }

#endif

}  // namespace

CrcPath best_crc_path() {
  static const CrcPath path = hardware_available() ? CrcPath::hardware : CrcPath::portable;
  return path;
}

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc, CrcPath path) {
  const std::uint32_t state =
      path == CrcPath::hardware ? update_hardware(~crc, bytes) : update_portable(~crc, bytes);
  return ~state;
}

}  // namespace tio
