// Compares the search for valid frames with a simple implementation, over any bytes in any windows.
//
// Input: options, size of windows (2 bytes), limit of records (1 byte), the stream.
#include <vector>

#include "repair.h"
#include "require.h"
#include "sweep_reference.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tio;
  // The simple implementation takes quadratic time.
  if (size < 4 || size > 4096) return 0;
  const Bytes input = std::as_bytes(std::span(data, size));
  const auto bits = load<std::uint8_t>(input, 0);
  const std::size_t window = std::size_t{load<std::uint16_t>(input, 1)} + 1;
  const std::uint64_t most = (bits & 8) != 0 ? load<std::uint8_t>(input, 3) : ~std::uint64_t{0};
  std::vector<std::byte> stream(input.begin() + 4, input.end());
  test::repair_frames(stream, (bits & 1) != 0, (bits & 2) != 0);
  // Damage after the checksums were corrected.
  if ((bits & 16) != 0 && !stream.empty()) stream[window % stream.size()] ^= std::byte{1};
  const test::Swept expected = test::reference_sweep(stream, most);
  const bool knows_end = (bits & 4) != 0;
  fuzz::require(test::sweep_in_windows(stream, most, window, knows_end) == expected, "windows");
  fuzz::require(test::sweep_in_windows(stream, most, 1, knows_end) == expected, "small windows");
  return 0;
}
