// Decodes up to four columns of the same images at once: JPEGs, PNGs or images that are stored as
// their pixels. Every value is compared with a view that is decoded alone, whose colors are then
// changed and whose pixels are placed one by one. Bytes around the values must stay as they were.
//
// Input: what all columns share (4 bytes), 16 bytes for each of four columns, the file.
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "image/color_jitter.h"
#include "image/image_column.h"
#include "image/jpeg_markers.h"
#include "image/raw_pixels.h"
#include "image_target.h"
#include "jpeg/decoder.h"
#include "png/decoder.h"
#include "png_chunks.h"
#include "require.h"

namespace tio::fuzz {
namespace {

constexpr std::size_t kSharedBytes = 4;
constexpr std::size_t kColumnBytes = 16;
constexpr std::size_t kMostColumns = 4;
constexpr std::size_t kAllOptionBytes = kSharedBytes + kMostColumns * kColumnBytes;
constexpr std::int64_t kMostPixels = 1 << 16;
constexpr std::byte kAround{0xa5};  // what memory has before

template <class Decoder>
bool open_file(Decoder& decoder, const StoredImages& images, std::size_t image, ImageHeader& header,
               std::string& reason) {
  return decoder.open(images.files[image], header, reason);
}

// The formats, as the modules of the package have them.
struct Jpeg {
  using Decoder = JpegDecoder;
  static constexpr bool kHasFractions = true;
  static std::unique_ptr<Decoder> make(bool is_fast) { return std::make_unique<Decoder>(is_fast); }
  static constexpr auto open = &open_file<Decoder>;
  static bool admits(Bytes image) {
    return image.size() > 3 && !read_jpeg_markers(image, 16).fault;
  }
  static std::uint64_t most_pixels(Bytes image) { return image.size() * 8 * 64; }
};

struct Png {
  using Decoder = PngDecoder;
  static constexpr bool kHasFractions = false;
  static std::unique_ptr<Decoder> make(bool) { return std::make_unique<Decoder>(); }
  static constexpr auto open = &open_file<Decoder>;
  static bool admits(Bytes) { return true; }
  static std::uint64_t most_pixels(Bytes image) { return image.size() * 1032; }
};

struct Raw {
  using Decoder = RawPixels;
  static constexpr bool kHasFractions = false;
  static std::unique_ptr<Decoder> make(bool) { return std::make_unique<Decoder>(); }
  static bool open(Decoder& decoder, const StoredImages& images, std::size_t image,
                   ImageHeader& header, std::string& reason) {
    header = images.headers[image];
    return decoder.open(images.files[image], header, reason);
  }
  static bool admits(Bytes) { return true; }
  static std::uint64_t most_pixels(Bytes image) { return image.size() + 1; }
};

// What all columns share.
class Shared {
 public:
  explicit Shared(const std::uint8_t* bytes) : bytes_(bytes) {}

  int format() const { return bytes_[0] & 3; }
  bool is_fast() const { return (bytes_[0] & 4) != 0; }
  std::size_t threads() const { return (bytes_[0] & 8) != 0 ? 2 : 1; }
  std::size_t columns() const { return 1 + (bytes_[0] >> 4 & 3); }
  bool has_second() const { return (bytes_[0] & 64) != 0; }  // a part of the file is an image, too
  // The header of pixels, which may be wrong.
  ImageHeader raw_header(std::size_t size) const {
    const int components = (bytes_[0] & 128) != 0 ? 1 : 3;
    const std::int64_t width = 1 + bytes_[1];
    const auto rows = static_cast<std::int64_t>(size) / width / components;
    return {rows + (bytes_[2] > 250 ? 1 : 0), width, components};
  }
  std::size_t cut_size(std::size_t size) const { return size * bytes_[3] / 256; }

 private:
  const std::uint8_t* bytes_;
};

// What a column asks for.
class ColumnRequest {
 public:
  explicit ColumnRequest(const std::uint8_t* bytes) : request_(bytes), bytes_(bytes) {}

  const Request& view() const { return request_; }
  bool is_placed() const { return bit(0); }  // views are known, and not found by the rule
  bool is_odd() const { return is_placed() && bit(7); }
  bool has_shared() const { return !is_placed() && bit(6); }

  ViewRule rule() const {
    ViewRule rule = request_.rule();
    rule.is_nearest = bit(1);
    rule.only_gray = bit(2);
    rule.may_shrink = bit(3) && !rule.is_nearest;
    if (bit(5) && rule.fit.short_side == 0) rule.fit.method = Fit::Method::whole;
    return rule;
  }

  // Returns a view of an image, which may lie outside of it.
  PlacedView placed(const ImageHeader& header) const {
    const ImageView view = request_.view(header.height, header.width);
    PlacedView placed{header.height, header.width, view.left,   view.top,  view.right,
                      view.bottom,   view.from_x,  view.from_y, view.to_x, view.to_y,
                      view.height,   view.width,   0,           0,         0};
    placed.is_flipped = request_.is_mirrored() ? 1 : 0;
    if (bit(5)) placed.value_top = bytes_[15] & 3;
    if (bit(5)) placed.value_left = bytes_[15] >> 2 & 3;
    if (is_odd()) make_odd(placed);
    return placed;
  }
  // The size of all values, or nothing if each has that of its view.
  std::optional<std::pair<std::int64_t, std::int64_t>> size(const PlacedView& first) const {
    const ViewRule found = rule();
    if (is_placed() && !bit(5)) return {};
    if (is_placed()) return std::pair(first.height % 1000 + 3, first.width % 1000 + 3);
    if (found.fit.method == Fit::Method::whole) return {};
    return std::pair(found.fit.height, found.fit.width);
  }

  SharedCrop shared() const {
    const std::int64_t height = bytes_[13] % 100;
    const std::int64_t width = 1 + bytes_[14] % 100;
    if (height == 0) return {};  // the other image has none
    const std::int64_t top = bytes_[2] % height;
    const std::int64_t left = bytes_[3] % width;
    return {height,
            width,
            top,
            left,
            1 + bytes_[4] % (height - top),
            1 + bytes_[5] % (width - left),
            bytes_[8] & 1};
  }

  // The schemas of the package allow it for colors alone.
  std::optional<ColorJitter> jitter(int channels) const {
    if (!bit(4) || channels != 3) return {};
    ColorJitter jitter;
    const double least = (bytes_[13] & 15) / 8.0;
    const double most = least + (bytes_[13] >> 4) / 4.0;
    if (bytes_[14] & 1) jitter.ranges[0] = {least, most};
    if (bytes_[14] & 2) jitter.ranges[1] = {least, most == 0 ? ColorJitter::kMostFactor : most};
    if (bytes_[14] & 4) jitter.ranges[2] = {0, most};
    if (bytes_[14] & 8) jitter.ranges[3] = {-least / 4, least / 4};
    jitter.probability = (bytes_[14] & 16) != 0 ? 0.5 : 1;
    return jitter;
  }

  Philox random(std::size_t image) const { return {bytes_[15], image}; }

 private:
  // Sets one number to one that is too small, too large, or none.
  void make_odd(PlacedView& placed) const {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::array<std::int64_t*, 10> numbers = {
        &placed.left,   &placed.top,   &placed.right,     &placed.bottom,     &placed.image_height,
        &placed.height, &placed.width, &placed.value_top, &placed.value_left, &placed.image_width};
    const std::array<double*, 4> ends = {&placed.from_x, &placed.from_y, &placed.to_x,
                                         &placed.to_y};
    const std::size_t which = bytes_[14] % 14;
    const int kind = bytes_[14] / 14 % 6;
    if (which < 10) {
      std::int64_t& number = *numbers[which];
      const std::array<std::int64_t, 6> values = {kLeast, kMost, -1, 0, number - 1, number + 1};
      number = values[static_cast<std::size_t>(kind)];
    } else {
      const std::array<double, 6> values = {-1e300, 1e300, -1e-9, NAN, INFINITY, 5e-324};
      *ends[which - 10] = values[static_cast<std::size_t>(kind)];
    }
  }

  bool bit(int number) const { return (bytes_[12] >> number & 1) != 0; }

  Request request_;
  const std::uint8_t* bytes_;
};

// A column, and the memory that it refers to.
struct Made {
  ColumnRequest request;
  ViewRule rule;
  std::vector<PlacedView> views;
  std::vector<SharedCrop> shared;
  std::vector<std::byte> memory;
  std::vector<std::int64_t> offsets;
  std::vector<std::byte> tables;
  ImageColumn column;

  explicit Made(const std::uint8_t* bytes) : request(bytes), rule(request.rule()) {}
};

// The size of the value of an image.
std::pair<std::int64_t, std::int64_t> value_size(const Made& made, const PlacedView& view) {
  return made.column.pixels.size.value_or(std::pair(view.height, view.width));
}

void set_views(Made& made, const std::vector<ImageHeader>& headers) {
  made.views.resize(headers.size());
  for (std::size_t i = 0; made.request.is_placed() && i < headers.size(); ++i) {
    if (headers[i].height > 0) made.views[i] = made.request.placed(headers[i]);
  }
  made.column.views.rule = &made.rule;
  made.column.views.views = made.views;
  made.column.is_done.resize(headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i) {
    made.column.views.random.push_back(made.request.random(i));
    if (made.request.has_shared()) made.shared.push_back(made.request.shared());
  }
  made.column.views.shared = made.shared;
}

// Allocates memory of exactly the size of the values, unless a view asks for something odd.
void set_pixels(Made& made, int channels) {
  constexpr std::int64_t kMostValue = 1 << 18;
  const Request& request = made.request.view();
  const int bytes = request.value_bytes();
  made.column.pixels.size = made.request.size(made.views[0]);
  std::int64_t end = 0;
  for (const PlacedView& view : made.views) {
    const auto [height, width] = value_size(made, view);
    made.offsets.push_back(end);
    if (height < 1 || width < 1 || height > kMostValue / width) continue;
    end += height * width * channels * bytes;
  }
  made.memory.assign(static_cast<std::size_t>(end), kAround);
  if (bytes > 1) made.tables = tables_of(channels, bytes);
  ColumnPixels& pixels = made.column.pixels;
  pixels.memory = made.memory;
  pixels.offsets = made.offsets;
  pixels.has_planes = request.is_planar();
  pixels.channels = channels;
  pixels.value_bytes = bytes;
  pixels.tables = bytes == 1 ? nullptr : made.tables.data();
  made.column.jitter = made.request.jitter(channels);
  if (!made.column.jitter) return;
  for (std::size_t i = 0; i < made.views.size(); ++i) {
    made.column.jitter_random.push_back(made.request.random(7 + i));
  }
}

// Decodes a view alone, to levels [height, width, 3 or 1]; nothing if the image is damaged.
template <class Format>
std::optional<std::vector<std::uint8_t>> decode_alone(const StoredImages& images, std::size_t image,
                                                      bool is_fast, const ImageView& view,
                                                      int colors) {
  const auto decoder = Format::make(is_fast);
  ImageHeader header;
  std::string reason;
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(view.height * view.width * colors));
  const ViewTarget part{view,
                        {reinterpret_cast<std::byte*>(levels.data()), view.width * colors, colors,
                         1, colors, 1, nullptr}};
  const bool is_good = Format::admits(images.files[image]) &&
                       Format::open(*decoder, images, image, header, reason) &&
                       decoder->decode({&part, 1}, reason);
  if (is_good) return levels;
  require(!reason.empty(), "a failure without a reason");
  return {};
}

// Writes the value of an image as it should be.
void place(const Made& made, std::size_t image, std::vector<std::uint8_t> levels,
           std::vector<std::byte>& memory) {
  const PlacedView& view = made.views[image];
  const ColumnPixels& pixels = made.column.pixels;
  const auto [rows, columns] = value_size(made, view);
  const int colors = pixels.channels < 3 ? 1 : 3;
  if (made.column.jitter) {
    Philox random = made.column.jitter_random[image];
    apply(made.column.jitter->choose(random), levels.data(), levels.size() / 3, 3);
  }
  std::size_t at = 0;
  for (std::int64_t y = view.value_top; y < view.value_top + view.height; ++y) {
    for (std::int64_t x = 0; x < view.width; ++x) {
      const std::int64_t column = view.value_left + (view.is_flipped != 0 ? view.width - 1 - x : x);
      for (int channel = 0; channel < pixels.channels; ++channel) {
        const std::uint8_t level = channel < colors ? levels[at++] : 255;
        const std::uint64_t value = pixels.value_bytes == 1 ? level : value_of(channel, level);
        const std::int64_t number = pixels.has_planes
                                        ? (channel * rows + y) * columns + column
                                        : (y * columns + column) * pixels.channels + channel;
        std::memcpy(
            &memory[static_cast<std::size_t>(made.offsets[image] + number * pixels.value_bytes)],
            &value, static_cast<std::size_t>(pixels.value_bytes));
      }
    }
  }
}

// Returns how an image is decoded for a column, if it has a valid view and a place in the memory.
template <class Format>
std::optional<ImageView> valid_view(const Made& made, std::size_t image,
                                    const ImageHeader& header) {
  const PlacedView& placed = made.views[image];
  if (placed.image_height != header.height || placed.image_width != header.width) return {};
  if (made.rule.only_gray && header.components != 1) return {};
  const auto view = made.rule.decoded(placed, Format::kHasFractions);
  const auto [rows, columns] = value_size(made, placed);
  if (!view || !view->fits_stored(header.height, header.width)) return {};
  const bool has_place = placed.value_top >= 0 && placed.value_left >= 0 &&
                         placed.height <= rows - placed.value_top &&
                         placed.width <= columns - placed.value_left && rows > 0 && columns > 0;
  const std::int64_t bytes = made.column.pixels.channels * made.column.pixels.value_bytes;
  const std::int64_t room =
      (static_cast<std::int64_t>(made.memory.size()) - made.offsets[image]) / bytes;
  if (!has_place || columns > room / rows) return {};
  return view;
}

ImageView whole_view(const ImageHeader& header) {
  return {0,
          0,
          header.width,
          header.height,
          0,
          0,
          static_cast<double>(header.width),
          static_cast<double>(header.height),
          header.height,
          header.width};
}

// Checks the value of one image of a column.
template <class Format>
void check_value(const Made& made, const StoredImages& images, std::size_t image, bool is_fast,
                 const ImageHeader& header, bool is_whole, std::vector<std::byte>& wanted) {
  const bool is_done = made.column.is_done[image] != 0;
  const auto view =
      header.height > 0 ? valid_view<Format>(made, image, header) : std::optional<ImageView>();
  require(view || !is_done, "an image without a valid view was decoded");
  if (!view) return;
  if (is_done) {
    const int colors = made.column.pixels.channels < 3 ? 1 : 3;
    auto levels = decode_alone<Format>(images, image, is_fast, *view, colors);
    require(levels.has_value(), "a view was decoded only together with others");
    place(made, image, *std::move(levels), wanted);
    return;
  }
  require(!is_whole, "a view of a good image was not decoded");
  // What a damaged image leaves is not defined.
  const auto [rows, columns] = value_size(made, made.views[image]);
  const auto begin = static_cast<std::size_t>(made.offsets[image]);
  const std::int64_t bytes = made.column.pixels.channels * made.column.pixels.value_bytes;
  std::memcpy(&wanted[begin], &made.memory[begin],
              static_cast<std::size_t>(rows * columns * bytes));
}

template <class Format>
void check_columns(const Shared& shared, const std::uint8_t* options, const StoredImages& images) {
  std::vector<ImageHeader> headers;
  std::vector<bool> is_whole;
  for (std::size_t i = 0; i < images.files.size(); ++i) {
    const auto decoder = Format::make(shared.is_fast());
    ImageHeader header;
    std::string reason;
    const bool is_open =
        Format::admits(images.files[i]) && Format::open(*decoder, images, i, header, reason);
    if (!is_open) header = {};
    if (is_open && (header.height < 1 || header.width < 1)) return;
    if (is_open && header.height > kMostPixels / header.width) return;
    headers.push_back(header);
    is_whole.push_back(is_open &&
                       decode_alone<Format>(images, i, shared.is_fast(), whole_view(header), 3));
  }
  std::vector<std::unique_ptr<Made>> all;
  std::vector<ImageColumn*> columns;
  for (std::size_t i = 0; i < shared.columns(); ++i) {
    all.push_back(std::make_unique<Made>(options + i * kColumnBytes));
    Made& made = *all.back();
    set_views(made, headers);
    if (!made.request.is_placed()) find_views<Format>(images, made.column.views, shared.threads());
    // Images that are stored as pixels have the channels of their values.
    const bool is_raw = !images.headers.empty();
    set_pixels(made, is_raw ? images.headers[0].components : made.request.view().channels());
    columns.push_back(&made.column);
  }
  decode_columns<Format>(images, columns, shared.is_fast(), shared.threads());
  for (const auto& made : all) {
    std::vector<std::byte> wanted(made->memory.size(), kAround);
    for (std::size_t i = 0; i < headers.size(); ++i) {
      check_value<Format>(*made, images, i, shared.is_fast(), headers[i], is_whole[i], wanted);
    }
    // Values of an odd size may overlap.
    require(made->request.is_odd() || made->memory == wanted, "other pixels");
  }
}

void check(const std::uint8_t* data, std::size_t size) {
  if (size < kAllOptionBytes) return;
  const Shared shared(data);
  const std::uint8_t* const options = data + kSharedBytes;
  const Bytes file = std::as_bytes(std::span(data + kAllOptionBytes, size - kAllOptionBytes));
  StoredImages images;
  images.files = {file};
  if (shared.has_second()) images.files.push_back(file.first(shared.cut_size(file.size())));
  if (shared.format() == 0) return check_columns<Jpeg>(shared, options, images);
  if (shared.format() == 1) return check_columns<Png>(shared, options, images);
  for (const Bytes pixels : images.files) {
    images.headers.push_back(shared.raw_header(pixels.size()));
  }
  check_columns<Raw>(shared, options, images);
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  if (size < kAllOptionBytes || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 < 3) {
    LLVMFuzzerMutate(data, kAllOptionBytes, kAllOptionBytes);
    return size;
  }
  const std::size_t room = max_size - kAllOptionBytes;
  if (Shared(data).format() != 1) {
    const std::size_t kept = size - kAllOptionBytes;
    return kAllOptionBytes + LLVMFuzzerMutate(data + kAllOptionBytes, kept, room);
  }
  const std::string file(reinterpret_cast<const char*>(data) + kAllOptionBytes,
                         size - kAllOptionBytes);
  const std::string mutated = PngMutator(seed).mutate(file, room);
  const std::size_t taken = std::min(mutated.size(), room);
  std::memcpy(data + kAllOptionBytes, mutated.data(), taken);
  return kAllOptionBytes + taken;
}

}  // namespace
}  // namespace tio::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return tio::fuzz::mutate(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(data, size);
  return 0;
}
