#include "wire/crc32c.h"

#include "wire/crc32c_paths.h"

namespace tio {

#if defined(TIO_HAS_CRC_INSTRUCTION)

CrcPath best_crc_path() {
  static const CrcPath path =
      crc_paths::is_hardware_supported() ? CrcPath::hardware : CrcPath::portable;
  return path;
}

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc, CrcPath path) {
  return ~(path == CrcPath::hardware ? crc_paths::update_hardware(~crc, bytes)
                                     : crc_paths::update_portable(~crc, bytes));
}

#else

CrcPath best_crc_path() { return CrcPath::portable; }

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc, CrcPath) {
  return ~crc_paths::update_portable(~crc, bytes);
}

#endif

}  // namespace tio
