// Compares the filters of PNG rows with a simple implementation, over any bytes.
//
// Input: bytes of a row and of a pixel (1 byte each), the rows.
#include <algorithm>
#include <string>
#include <vector>

#include "image/png.h"
#include "png_rows.h"
#include "require.h"

namespace tio::fuzz {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return;
  const std::size_t row_bytes = data[0];
  const std::size_t pixel_bytes = data[1] % 12U;
  const std::string rows(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::vector<std::byte> work(rows.size());
  std::ranges::transform(rows, work.begin(), [](char c) { return static_cast<std::byte>(c); });
  const bool good = unfilter_png(work, row_bytes, pixel_bytes);
  const bool is_whole = row_bytes != 0 && rows.size() % (row_bytes + 1) == 0;
  const bool is_pixel = pixel_bytes >= 1 && pixel_bytes <= 8;
  if (!rows.empty() && !(is_whole && is_pixel)) {
    return require(!good, "rows of no size, or pixels of none, were taken");
  }
  const auto wanted = test::reference_unfilter(rows, row_bytes, pixel_bytes);
  require(good == wanted.has_value(), "filters were judged otherwise");
  if (!good) return;
  const std::string found(reinterpret_cast<const char*>(work.data()), work.size());
  require(found == *wanted, "other pixels");
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(data, size);
  return 0;
}
