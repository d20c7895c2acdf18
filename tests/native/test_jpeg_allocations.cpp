// A lack of memory while a JPEG is decoded: std::bad_alloc, and the decoder can be used afterwards.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "encode.h"
#include "jpeg/decoder.h"
#include "jpeg_writer.h"

namespace tio::test {
namespace {

void test_decoding() {
  std::mt19937_64 random(5);
  const std::vector<std::byte> file = exact(write_jpeg({.width = 60, .height = 40}, random));
  const std::vector<std::byte> bad = exact("not a JPEG");
  const ImageView view{5, 4, 55, 39, 0, 0, 50, 35, 12, 9};
  const auto decode = [&](std::unique_ptr<JpegDecoder>& decoder) {
    std::vector<std::uint8_t> pixels(12 * 9 * 3);
    const PixelTarget target{reinterpret_cast<std::byte*>(pixels.data()), 27, 3, 1, 3, 1, nullptr};
    const ViewTarget part{view, target};
    ImageHeader header;
    std::string reason;
    CHECK(decoder->open(file, header, reason) && decoder->decode({&part, 1}, reason));
    CHECK(!decoder->open(bad, header, reason));
    return pixels;
  };
  fail_each_allocation("decoding a JPEG", [] { return std::make_unique<JpegDecoder>(); }, decode);
  fail_each_allocation("making a decoder", [] {
    const auto decoder = std::make_unique<JpegDecoder>();
    return decoder != nullptr;
  });
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_decoding();
  return tio::test::finish();
}
