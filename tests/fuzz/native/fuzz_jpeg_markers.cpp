// Reads the markers of a JPEG in any bytes.
//
// Input: the most scans that are allowed (1 byte), the file.
#include <vector>

#include "image/jpeg_markers.h"
#include "require.h"

namespace tio::fuzz {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return;
  const std::uint32_t max_scans = data[0] % 8U;
  const auto file = std::as_bytes(std::span(data + 1, size - 1));
  const JpegMarkers found = read_jpeg_markers(file, max_scans);
  if (found.fault.has_value()) return;
  require(found.scans >= 1 && found.scans <= max_scans, "a file has no scans, or too many");
  require(found.width != 0 && found.height != 0, "a file has no pixels");
  require(found.coding >= 0xc0 && found.coding <= 0xc3 && found.precision == 8, "unsupported");
  // The file was accepted because of its end marker: without that, and all after it, it is not.
  for (std::size_t end = file.size(); end-- > 2;) {
    if (file[end] != std::byte{0xd9} || file[end - 1] != std::byte{0xff}) continue;
    const JpegMarkers shorter = read_jpeg_markers(file.first(end), max_scans);
    if (shorter.fault == JpegFault::truncated) return;
    require(!shorter.fault.has_value(), "a file without its end is judged otherwise");
  }
  require(false, "a file without an end marker was accepted");
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(data, size);
  return 0;
}
