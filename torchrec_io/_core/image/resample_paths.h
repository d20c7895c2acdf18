// The implementations of resampling, one per instruction set. Only resample.cpp calls them. All
// have the same results.
#pragma once

#include "image/resample.h"

namespace tio::resample_paths {

void rows_portable(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t count,
                   std::size_t begin, std::size_t size, std::int16_t* out);
void columns_portable(const std::int16_t* row, const ResampleWeights& weights, int channels,
                      std::uint8_t* out);

#if defined(__x86_64__)
void rows_avx2(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t count,
               std::size_t size, std::int16_t* out);
// For pixels of four channels.
void columns_avx2(const std::int16_t* row, const ResampleWeights& weights, std::uint8_t* out);
#endif

inline constexpr int kRowShift = ResampleWeights::kBits - kRowBits;
inline constexpr int kColumnShift = ResampleWeights::kBits + kRowBits;

}  // namespace tio::resample_paths
