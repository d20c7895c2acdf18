#include "wire/crc32c_paths.h"

namespace tio::crc_paths {
namespace {

constexpr std::array<Table, 8> make_slicing_tables() {
  std::array<Table, 8> tables{};
  tables[0] = make_byte_table();
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr auto kSlicing = make_slicing_tables();

}  // namespace

// Slicing-by-8: eight table lookups process eight bytes.
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

}  // namespace tio::crc_paths
