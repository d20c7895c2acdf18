// CRC-32C (Castagnoli, RFC 3720 appendix B.4) and the masked form that TFRecord files store.
#pragma once

#include <cstdint>

#include "wire/bytes.h"

namespace tio {

// Implementations of CRC-32C. `hardware` uses the CRC instruction of x86 (SSE4.2) or ARM.
enum class CrcPath { portable, hardware };

// Returns the fastest path that this processor supports.
CrcPath best_crc_path();

// Returns the CRC of `bytes` appended to data with the CRC `crc`, 0 for no data. The processor must
// support `path`. It is an argument so that one test covers every path.
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0, CrcPath path = best_crc_path());

// Returns the form that TFRecord files store: rotated and offset, so that the CRC of data that
// contains CRCs stays reliable.
constexpr std::uint32_t mask_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace tio
