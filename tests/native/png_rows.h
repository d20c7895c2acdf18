// The filters and pixels of PNG images, one byte at a time: the reference for tests and the
// fuzzers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace tio::test {

// Returns the rows without filters, or nothing if a filter is unknown.
inline std::optional<std::string> reference_unfilter(const std::string& rows, std::size_t row_bytes,
                                                     std::size_t pixel_bytes) {
  std::string done = rows;
  const std::size_t step = row_bytes + 1;
  // Byte `column` of row `row`, from 1 on; 0 outside of the image.
  const auto raw = [&](long row, long column) -> int {
    if (row < 0 || column < 1) return 0;
    return static_cast<std::uint8_t>(
        done[static_cast<std::size_t>(row) * step + static_cast<std::size_t>(column)]);
  };
  for (long row = 0; row < static_cast<long>(rows.size() / step); ++row) {
    const int filter = static_cast<std::uint8_t>(rows[static_cast<std::size_t>(row) * step]);
    if (filter > 4) return std::nullopt;
    for (long column = 1; column <= static_cast<long>(row_bytes); ++column) {
      const int a = raw(row, column - static_cast<long>(pixel_bytes));
      const int b = raw(row - 1, column);
      const int c = raw(row - 1, column - static_cast<long>(pixel_bytes));
      const int p = a + b - c;
      int nearest = c;
      if (std::abs(p - b) <= std::abs(p - nearest)) nearest = b;
      if (std::abs(p - a) <= std::abs(p - nearest)) nearest = a;
      const int added[] = {0, a, b, (a + b) / 2, nearest};
      char& byte = done[static_cast<std::size_t>(row) * step + static_cast<std::size_t>(column)];
      byte = static_cast<char>(static_cast<std::uint8_t>(byte) + added[filter]);
    }
  }
  return done;
}

// Returns a pixel without its filter as gray, gray and alpha, RGB, or RGBA.
inline std::vector<std::uint8_t> reference_pixel(const std::string& stored, int channels) {
  const auto level = [&stored](std::size_t at) { return static_cast<std::uint8_t>(stored[at]); };
  std::vector<std::uint8_t> colors(3, level(0));
  if (stored.size() > 2) colors = {level(0), level(1), level(2)};
  if (channels < 3) {
    const unsigned luma = 19595U * colors[0] + 38470U * colors[1] + 7471U * colors[2] + 0x8000U;
    colors = {static_cast<std::uint8_t>(luma >> 16)};
  }
  if (channels % 2 == 0) colors.push_back(255);
  return colors;
}

}  // namespace tio::test
