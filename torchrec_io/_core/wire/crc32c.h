// CRC-32C (Castagnoli, RFC 3720 appendix B.4) and the masked form that TFRecord stores.
#pragma once

#include <cstdint>

#include "wire/bytes.h"

namespace tio {

enum class CrcPath { portable, hardware };

// The fastest path that this processor can run.
CrcPath best_crc_path();

// CRC of `bytes` appended to data whose CRC is `crc` (0 for none). `path` must be one this
// processor can run; it is an argument so that one test suite covers every path.
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0, CrcPath path = best_crc_path());

// TFRecord stores CRCs rotated and offset, so that a CRC of data holding CRCs stays a good one.
constexpr std::uint32_t mask_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace tio
