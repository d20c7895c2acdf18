// Decodes parts of JPEGs, some chosen by rules, compared with the whole image and a simple filter.
//
// Input: options of image_target.h, the file.
#include <optional>
#include <string>

#include "image/jpeg_markers.h"
#include "image_target.h"
#include "jpeg/decoder.h"
#include "require.h"

namespace tio::fuzz {
namespace {

constexpr std::uint32_t kMostScans = 16;
constexpr std::int64_t kMostPixels = 1 << 16;  // at least the longest side of a JPEG

Decoded decode(JpegDecoder& decoder, Bytes file, const ImageView& view, const Request& request) {
  return decode_as(request, view, [&](const PixelTarget& target, std::string& reason) {
    ImageHeader header;
    const ViewTarget part{view, target};
    return decoder.open(file, header, reason) && decoder.decode({&part, 1}, reason);
  });
}

// Returns the view that the rule of a request chooses, if it chooses one.
std::optional<ImageView> view_by_rule(const Request& request, std::int64_t height,
                                      std::int64_t width) {
  const ViewRule rule = request.rule();
  const auto placed = rule.find(height, width, request.random());
  if (!placed) return std::nullopt;
  const ImageView view = *rule.decoded(*placed);
  require(height * width <= rule.max_pixels, "an image that is too large was taken");
  require(view.fits(height, width), "a view outside of the image");
  require(!view.shrinks_much(), "a view that is not exact enough");
  require(rule.fit.method != Fit::Method::none || !view.is_resized(), "a size that was not asked");
  require(placed->value_top >= 0 && view.height <= rule.fit.height - placed->value_top,
          "rows outside");
  require(placed->value_left >= 0 && view.width <= rule.fit.width - placed->value_left,
          "columns outside");
  if (rule.fit.method != Fit::Method::contain) {
    require(view.height == rule.fit.height && view.width == rule.fit.width, "another size");
  }
  if (rule.crop) {
    const Crop& crop = *rule.crop;
    require(view.left >= crop.left && view.right <= crop.left + crop.width &&
                view.top >= crop.top && view.bottom <= crop.top + crop.height,
            "a view outside of the crop");
  }
  return view;
}

void check(const std::uint8_t* data, std::size_t size) {
  if (size < kOptionBytes) return;
  const Request request(data);
  const auto file = std::as_bytes(std::span(data + kOptionBytes, size - kOptionBytes));
  JpegDecoder decoder(request.is_fast());
  ImageHeader header;
  std::string reason;
  const bool is_jpeg = decoder.open(file, header, reason);
  require(is_jpeg == reason.empty(), "a failure without a reason, or the reverse");
  const JpegMarkers markers = read_jpeg_markers(file, kMostScans);
  if (!is_jpeg || markers.fault.has_value()) return;
  require(header.height == markers.height && header.width == markers.width, "another size");
  if (header.height * header.width > kMostPixels) return;

  ImageView all;
  all.eighths = request.eighths();
  all.bottom = all.height = (header.height * all.eighths + 7) / 8;
  all.right = all.width = (header.width * all.eighths + 7) / 8;
  all.to_x = static_cast<double>(all.width);
  all.to_y = static_cast<double>(all.height);
  const std::optional<ImageView> chosen = request.has_rule()
                                              ? view_by_rule(request, all.height, all.width)
                                              : request.view(all.height, all.width);
  if (!chosen) return;
  const ImageView view = *chosen;
  const Decoded whole = decode(decoder, file, all, request);
  const Decoded part = decode(decoder, file, view, request);
  JpegDecoder fresh(request.is_fast());
  const Decoded again = decode(fresh, file, view, request);
  require(part.levels == again.levels, "a decoder that was used before has other pixels");
  if (!whole.is_good) return;  // the damage may be below the part
  require(part.is_good, "a part of a good image failed");
  compare(part, whole, view, all, request.channels());
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(data, size);
  return 0;
}
