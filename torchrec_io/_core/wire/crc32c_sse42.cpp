#if defined(__x86_64__)

#include <nmmintrin.h>

#include <cstdint>

#define TIO_TARGET __attribute__((target("sse4.2")))

namespace tio::crc_paths {
namespace {

TIO_TARGET inline std::uint64_t step8(std::uint64_t state, std::uint64_t word) {
  return _mm_crc32_u64(state, word);
}

TIO_TARGET inline std::uint32_t step1(std::uint32_t state, std::uint8_t byte) {
  return _mm_crc32_u8(state, byte);
}

}  // namespace
}  // namespace tio::crc_paths

#include "wire/crc32c_lanes.h"

namespace tio::crc_paths {

bool is_hardware_supported() { return __builtin_cpu_supports("sse4.2"); }

}  // namespace tio::crc_paths

#endif
