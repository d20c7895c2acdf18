#if defined(__aarch64__)

#include <arm_acle.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdint>

#define TIO_TARGET __attribute__((target("+crc")))

namespace tio::crc_paths {
namespace {

TIO_TARGET inline std::uint64_t step8(std::uint64_t state, std::uint64_t word) {
  return __crc32cd(static_cast<std::uint32_t>(state), word);
}

TIO_TARGET inline std::uint32_t step1(std::uint32_t state, std::uint8_t byte) {
  return __crc32cb(state, byte);
}

}  // namespace
}  // namespace tio::crc_paths

#include "wire/crc32c_lanes.h"

namespace tio::crc_paths {

bool is_hardware_supported() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return true;  // every 64-bit Apple processor has the instruction
#endif
}

}  // namespace tio::crc_paths

#endif
