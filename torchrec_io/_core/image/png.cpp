#include "image/png.h"

#include <cstdint>
#include <cstdlib>

namespace tio {
namespace {

using Row = std::span<std::uint8_t>;

// A filter subtracts from each byte a prediction from its neighbors: the byte of the pixel to the
// left, of the pixel above, and of the pixel to the left of that. Missing neighbors count as 0.
template <class Predict>
void add_predictions(Row row, std::span<const std::uint8_t> above, std::size_t pixel_bytes,
                     Predict&& predict) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool is_first = i < pixel_bytes;
    const int left = is_first ? 0 : row[i - pixel_bytes];
    const int up = above.empty() ? 0 : above[i];
    const int corner = is_first || above.empty() ? 0 : above[i - pixel_bytes];
    row[i] = static_cast<std::uint8_t>(row[i] + predict(left, up, corner));
  }
}

int paeth(int left, int up, int corner) {
  const int guess = left + up - corner;
  const int to_left = std::abs(guess - left);
  const int to_up = std::abs(guess - up);
  const int to_corner = std::abs(guess - corner);
  if (to_left <= to_up && to_left <= to_corner) return left;
  return to_up <= to_corner ? up : corner;
}

bool unfilter_row(std::uint8_t filter, Row row, std::span<const std::uint8_t> above,
                  std::size_t pixel_bytes) {
  const auto add = [&](auto&& predict) { add_predictions(row, above, pixel_bytes, predict); };
  switch (filter) {
    case 0: return true;
    case 1: add([](int left, int, int) { return left; }); return true;
    case 2: add([](int, int up, int) { return up; }); return true;
    case 3: add([](int left, int up, int) { return (left + up) / 2; }); return true;
    case 4: add(paeth); return true;
    default: return false;
  }
}

}  // namespace

bool unfilter_png(MutableBytes data, std::size_t row_bytes, std::size_t pixel_bytes) {
  if (row_bytes == 0 || row_bytes >= data.size() || pixel_bytes == 0 || pixel_bytes > 8) {
    return data.empty();
  }
  if (data.size() % (row_bytes + 1) != 0) return false;
  const Row rows(reinterpret_cast<std::uint8_t*>(data.data()), data.size());
  Row above;
  for (std::size_t at = 0; at < rows.size(); at += row_bytes + 1) {
    const Row row = rows.subspan(at + 1, row_bytes);
    if (!unfilter_row(rows[at], row, above, pixel_bytes)) return false;
    above = row;
  }
  return true;
}

}  // namespace tio
