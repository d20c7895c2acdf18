// CRC-32C in three interleaved lanes, for processors with a CRC instruction.
//
// Include this after defining TIO_TARGET (the function attribute that enables the instruction), and
// step8 and step1, which add 8 bytes or 1 byte to the register. Functions for different targets
// cannot be inlined into each other, so each target compiles its own copy.
#include "wire/crc32c_paths.h"

namespace tio::crc_paths {
namespace {

// The CRC instruction takes three cycles, but one can start in each cycle. So long inputs are split
// into three lanes that run together. A lane's CRC is then moved past the bytes that follow it:
// appending `kLane` zero bytes is a linear map of the register, tabulated for each byte.
template <std::size_t kLane>
std::array<Table, 4> make_shift_tables() {
  constexpr Table kByteTable = make_byte_table();
  // Column i of the map: the image of the register with only bit i set.
  std::array<std::uint32_t, 32> columns{};
  for (int bit = 0; bit < 32; ++bit) columns[bit] = std::uint32_t{1} << bit;
  for (auto& column : columns) {
    std::uint32_t crc = column;
    for (std::size_t byte = 0; byte < kLane; ++byte) crc = (crc >> 8) ^ kByteTable[crc & 0xff];
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

constexpr std::size_t kLongLane = 2048;
constexpr std::size_t kShortLane = 128;
// Computed when the library is loaded: as constants they exceed the step limits of compilers.
const auto kLongShift = make_shift_tables<kLongLane>();
const auto kShortShift = make_shift_tables<kShortLane>();

template <std::size_t kLane>
TIO_TARGET std::size_t run_lanes(std::uint32_t& state, Bytes bytes, std::size_t at,
                                 const std::array<Table, 4>& tables) {
  while (bytes.size() - at >= 3 * kLane) {
    // Hardware prefetching follows one stream of bytes, but not three that jump. Prefetching here
    // saves a quarter of the time for a large record that is not in the cache.
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

}  // namespace

TIO_TARGET std::uint32_t update_hardware(std::uint32_t state, Bytes bytes) {
  std::size_t at = run_lanes<kLongLane>(state, bytes, 0, kLongShift);
  at = run_lanes<kShortLane>(state, bytes, at, kShortShift);
  for (; bytes.size() - at >= 8; at += 8) {
    state = static_cast<std::uint32_t>(step8(state, load<std::uint64_t>(bytes, at)));
  }
  for (; at < bytes.size(); ++at) state = step1(state, load<std::uint8_t>(bytes, at));
  return state;
}

}  // namespace tio::crc_paths
