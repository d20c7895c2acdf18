// The implementations of CRC-32C, one per instruction set. Only crc32c.cpp calls them.
#pragma once

#include <array>
#include <cstdint>

#include "wire/bytes.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define TIO_HAS_CRC_INSTRUCTION
#endif

namespace tio::crc_paths {

// Each `update` function takes and returns the CRC register, which is the inverted CRC.
std::uint32_t update_portable(std::uint32_t state, Bytes bytes);

#if defined(TIO_HAS_CRC_INSTRUCTION)
std::uint32_t update_hardware(std::uint32_t state, Bytes bytes);
bool is_hardware_supported();
#endif

using Table = std::array<std::uint32_t, 256>;

// Returns the contribution of each byte to the register. The polynomial is in its reflected form.
constexpr Table make_byte_table() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78U : 0);
    table[byte] = crc;
  }
  return table;
}

}  // namespace tio::crc_paths
