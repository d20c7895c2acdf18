#if defined(__x86_64__)

#include "image/color_jitter_paths.h"

#define TIO_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace tio::jitter_paths {

TIO_TARGET void change_avx512(const Changes& changes, std::uint8_t* pixels, std::size_t count,
                              int channels) {
  change(changes, pixels, count, channels);
}

TIO_TARGET std::uint64_t sum_gray_avx512(const std::uint8_t* pixels, std::size_t count,
                                         int channels) {
  return sum_gray(pixels, count, channels);
}

}  // namespace tio::jitter_paths

#endif
