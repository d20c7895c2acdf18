// Fuzz targets that decode parts of images. Their inputs start with options: flags (2 bytes), the
// box, the part of it that is resized, and the size, or a rule that chooses these. The file
// follows.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "encode.h"
#include "image/view_rule.h"
#include "require.h"

namespace tio::fuzz {

constexpr std::size_t kOptionBytes = 12;

// What the first bytes of an input ask for.
class Request {
 public:
  explicit Request(const std::uint8_t* bytes) : bytes_(bytes) {}

  bool is_fast() const { return bit(0, 0); }
  bool is_resized() const { return bit(0, 1); }
  bool is_planar() const { return bit(0, 2); }
  bool is_mirrored() const { return bit(0, 3); }
  int channels() const { return 1 + (bytes_[0] >> 4) % 4; }
  int value_bytes() const { return 1 << (bytes_[0] >> 6); }
  bool is_transposed() const { return bit(1, 0); }
  bool is_upside_down() const { return bit(1, 1); }
  bool has_rule() const { return bit(1, 4); }
  int eighths() const { return has_rule() ? 8 : 8 >> (bytes_[1] >> 2) % 4; }

  ImageView view(std::int64_t height, std::int64_t width) const {
    ImageView view;
    view.eighths = eighths();
    std::tie(view.left, view.right) = range(bytes_[2], bytes_[4], width);
    std::tie(view.top, view.bottom) = range(bytes_[3], bytes_[5], height);
    view.width = view.right - view.left;
    view.height = view.bottom - view.top;
    view.to_x = static_cast<double>(view.width);
    view.to_y = static_cast<double>(view.height);
    if (!is_resized()) return view;
    view.from_x = view.to_x * (bytes_[6] / 600.0);
    view.from_y = view.to_y * (bytes_[7] / 600.0);
    view.to_x -= view.to_x * (bytes_[8] / 600.0);
    view.to_y -= view.to_y * (bytes_[9] / 600.0);
    view.height = 1 + bytes_[10] % 64;
    view.width = 1 + bytes_[11] % 64;
    return view;
  }

  // Returns a rule that the package could make: what its schemas refuse is left out.
  ViewRule rule() const {
    ViewRule rule;
    rule.fit.height = 1 + bytes_[10] % 64;
    rule.fit.width = 1 + bytes_[11] % 64;
    rule.fit.method = static_cast<Fit::Method>(bytes_[1] >> 2 & 3);
    if (rule.fit.method == Fit::Method::cover && is_upside_down()) {
      rule.fit.short_side = std::max(rule.fit.height, rule.fit.width) + bytes_[9] % 32;
    }
    if (bit(1, 5)) rule.crop = Crop{bytes_[2] % 16, bytes_[3] % 16, 1 + bytes_[4], 1 + bytes_[5]};
    const double flip = bytes_[8] / 255.0;
    const int augment = bytes_[1] >> 6;
    if (augment == 1) rule.augment = resized_crop(flip);
    if (augment == 2) rule.augment = RandomCrop{1 + bytes_[6] % 64, 1 + bytes_[7] % 64, flip};
    if (augment == 3) rule.augment = RandomFlip{flip};
    rule.max_pixels = 1 + 257 * bytes_[9];
    return rule;
  }

  Philox random() const { return {bytes_[9], bytes_[8]}; }

 private:
  RandomResizedCrop resized_crop(double flip) const {
    const double least_area = (1 + bytes_[6] % 16) / 16.0;
    const double least_ratio = (1 + bytes_[7] % 16) / 16.0;
    const double most_ratio = least_ratio + bytes_[7] / 16 / 4.0;
    return {{least_area, 1},
            {least_ratio, most_ratio},
            {std::log(least_ratio), std::log(most_ratio)},
            flip};
  }

  bool bit(std::size_t byte, int number) const { return (bytes_[byte] >> number & 1) != 0; }

  // Returns a range of at least one pixel.
  static std::pair<std::int64_t, std::int64_t> range(std::int64_t a, std::int64_t b,
                                                     std::int64_t size) {
    const std::int64_t begin = a * size / 256;
    return {begin, begin + 1 + b * (size - begin - 1) / 255};
  }

  const std::uint8_t* bytes_;
};

// Returns options for seeds.
inline std::vector<std::string> seed_requests() {
  using test::raw;
  return {
      raw({0x20, 0, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0}),      // the whole image
      raw({0x2c, 0, 40, 60, 100, 120, 0, 0, 0, 0, 0, 0}),    // a crop, mirrored, in planes
      raw({0x22, 0, 0, 0, 255, 255, 0, 0, 0, 0, 9, 12}),     // resized
      raw({0xa6, 3, 30, 20, 180, 200, 9, 9, 9, 9, 40, 50}),  // crop, resize and turn, 4 bytes
      raw({0x23, 4, 0, 0, 255, 255, 0, 0, 0, 0, 3, 4}),      // fast, at half of the size
      raw({0x03, 12, 0, 0, 255, 255, 0, 0, 0, 0, 3, 4}),     // gray, at an eighth of the size
      raw({0xf0, 1, 99, 0, 10, 255, 0, 0, 0, 0, 0, 0}),      // a few columns, RGBA, 8 bytes
  };
}

// Returns options with a rule, for seeds.
inline std::vector<std::string> seed_rules() {
  using test::raw;
  return {
      raw({0x20, 0x54, 0, 0, 0, 0, 1, 0x8b, 128, 255, 9, 12}),  // RandomResizedCrop
      raw({0x20, 0x90, 0, 0, 0, 0, 8, 9, 128, 255, 8, 9}),      // RandomCrop of the size itself
      raw({0x20, 0x1a, 0, 0, 0, 0, 0, 0, 0, 255, 9, 12}),       // the center after its shorter side
      raw({0x20, 0x38, 2, 3, 9, 12, 0, 0, 0, 255, 4, 20}),      // a crop that covers the size
      raw({0x20, 0xdc, 0, 0, 0, 0, 0, 0, 255, 255, 30, 5}),     // mirrored, the whole is visible
  };
}

struct Decoded {
  std::vector<double> levels;  // [height, width, channels]
  bool is_good = false;
};

// Returns the value that is written for a level of a channel, if values have more than one byte.
inline std::uint64_t value_of(int channel, std::uint64_t level) {
  return (level << 8 | static_cast<std::uint64_t>(channel)) * 0x0001000100010001ULL;
}

inline std::vector<std::byte> tables_of(int channels, int bytes) {
  std::vector<std::byte> tables;
  for (int channel = 0; channel < channels; ++channel) {
    for (std::uint64_t level = 0; level < 256; ++level) {
      const std::uint64_t value = value_of(channel, level);
      for (int i = 0; i < bytes; ++i) tables.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  return tables;
}

// Decodes a view into memory of exactly its size, in the layout and with the values of a request,
// by `decode(target, reason)`.
template <class Decode>
Decoded decode_as(const Request& request, const ImageView& view, Decode&& decode) {
  const int channels = request.channels();
  const int bytes = request.value_bytes();
  std::int64_t row = request.is_transposed() ? 1 : view.width;
  std::int64_t column = request.is_transposed() ? view.height : 1;
  const std::int64_t plane = request.is_planar() ? view.height * view.width : 1;
  if (!request.is_planar()) row *= channels;
  if (!request.is_planar()) column *= channels;
  std::int64_t first = 0;
  if (request.is_mirrored()) first += column * (view.width - 1);
  if (request.is_mirrored()) column = -column;
  if (request.is_upside_down()) first += row * (view.height - 1);
  if (request.is_upside_down()) row = -row;
  const auto count = static_cast<std::size_t>(view.height * view.width * channels);
  std::vector<std::byte> out(count * static_cast<std::size_t>(bytes));
  const std::vector<std::byte> tables = tables_of(channels, bytes);
  const PixelTarget target{out.data() + first * bytes,          row, column, plane, channels, bytes,
                           bytes == 1 ? nullptr : tables.data()};
  std::string reason;
  Decoded decoded;
  decoded.is_good = decode(target, reason);
  require(decoded.is_good == reason.empty(), "a failure without a reason, or the reverse");
  if (!decoded.is_good) return decoded;
  decoded.levels.reserve(count);
  for (std::int64_t y = 0; y < view.height; ++y) {
    for (std::int64_t x = 0; x < view.width; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        const std::int64_t at = first + y * row + x * column + channel * plane;
        std::uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) {
          value |= static_cast<std::uint64_t>(out[at * bytes + i]) << (8 * i);
        }
        const std::uint64_t level = bytes == 1 ? value : value >> 8 & 0xff;
        const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * bytes);
        require(bytes == 1 || value == (value_of(channel, level) & mask), "a value of no table");
        decoded.levels.push_back(static_cast<double>(level));
      }
    }
  }
  return decoded;
}

// One axis of an image, and the part of it that is resized.
struct Axis {
  std::int64_t whole;  // pixels of the image
  std::int64_t first;  // box that is cut out
  std::int64_t last;
  double begin;  // part of that box
  double end;
  std::int64_t size;  // pixels after resizing

  double scale() const { return (end - begin) / static_cast<double>(size); }
};

// Resizes one axis of `levels`, an array [outer, axis, inner], by an antialiased triangle.
inline std::vector<double> resize(const std::vector<double>& levels, const Axis& axis,
                                  std::size_t inner) {
  const auto whole = static_cast<std::size_t>(axis.whole);
  const std::size_t outer = levels.size() / inner / whole;
  const double reach = std::max(axis.scale(), 1.0);
  std::vector<double> out;
  std::vector<double> totals(inner);
  for (std::size_t block = 0; block < outer; ++block) {
    for (std::int64_t pixel = 0; pixel < axis.size; ++pixel) {
      const double center = axis.begin + (static_cast<double>(pixel) + 0.5) * axis.scale();
      std::ranges::fill(totals, 0);
      double sum = 0;
      const auto nearest = axis.first + static_cast<std::int64_t>(center);
      const auto most = static_cast<std::int64_t>(reach) + 2;
      const std::int64_t last = std::min(nearest + most, axis.last);
      for (std::int64_t at = std::max(nearest - most, axis.first); at < last; ++at) {
        const double distance = std::abs(static_cast<double>(at - axis.first) + 0.5 - center);
        const double weight = 1 - distance / reach;
        if (weight <= 0) continue;
        sum += weight;
        const double* const from = &levels[(block * whole + static_cast<std::size_t>(at)) * inner];
        for (std::size_t i = 0; i < inner; ++i) totals[i] += weight * from[i];
      }
      for (const double total : totals) out.push_back(total / sum);
    }
  }
  return out;
}

inline void compare(const Decoded& part, const Decoded& whole, const ImageView& view,
                    const ImageView& all, int channels) {
  const Axis across{all.width, view.left, view.right, view.from_x, view.to_x, view.width};
  const Axis down{all.height, view.top, view.bottom, view.from_y, view.to_y, view.height};
  const auto depth = static_cast<std::size_t>(channels);
  // The order does not matter, except for the time that a long image takes.
  std::vector<double> wanted;
  if (down.whole > across.whole) {
    wanted = resize(whole.levels, down, depth * static_cast<std::size_t>(all.width));
    wanted = resize(wanted, across, depth);
  } else {
    wanted = resize(whole.levels, across, depth);
    wanted = resize(wanted, down, depth * static_cast<std::size_t>(view.width));
  }
  require(wanted.size() == part.levels.size(), "another size");
  // A weight is rounded to 14 bits, so the error grows with the number of weights.
  const double taps = 2 * (std::max(across.scale(), 1.0) + std::max(down.scale(), 1.0));
  const double tolerance = view.is_resized() ? 0.6 + taps * 255 / (1 << 14) : 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    require(std::abs(part.levels[i] - wanted[i]) <= tolerance, "other pixels");
  }
}

}  // namespace tio::fuzz
