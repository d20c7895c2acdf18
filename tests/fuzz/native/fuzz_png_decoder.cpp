// Decodes parts of PNGs, compared with the whole image, simple row filters and a simple resize.
//
// Input: options of image_target.h, the file. Mutations keep its checksums right.
#include <cstring>
#include <string>

#include "image_target.h"
#include "png/decoder.h"
#include "png_chunks.h"
#include "png_rows.h"
#include "require.h"

namespace tio::fuzz {
namespace {

constexpr std::int64_t kMostPixels = 1 << 16;

Decoded decode(PngDecoder& decoder, Bytes file, const ImageView& view, const Request& request) {
  return decode_as(request, view, [&](const PixelTarget& target, std::string& reason) {
    ImageHeader header;
    const ViewTarget part{view, target};
    return decoder.open(file, header, reason) && decoder.decode({&part, 1}, reason);
  });
}

ImageView whole_of(std::int64_t height, std::int64_t width) {
  ImageView all;
  all.bottom = all.height = height;
  all.right = all.width = width;
  all.to_x = static_cast<double>(width);
  all.to_y = static_cast<double>(height);
  return all;
}

std::int64_t load(const std::string& bytes, std::size_t at) {
  std::int64_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Compares the pixels of a whole image with those of its rows.
void compare_with_rows(const Decoded& whole, const std::vector<Chunk>& chunks, int channels) {
  const std::string& header = chunks.front().content;
  const auto width = static_cast<std::size_t>(load(header, 0));
  const std::size_t depth = (header[9] & 2 ? 3 : 1) + (header[9] & 4 ? 1 : 0);
  const std::size_t size = (1 + width * depth) * static_cast<std::size_t>(load(header, 4));
  const auto rows = inflate_zlib(joined_pixels(chunks), size);
  require(rows && rows->size() == size, "pixels of another number");
  const auto plain = test::reference_unfilter(*rows, width * depth, depth);
  require(plain.has_value(), "an unknown filter was taken");
  std::size_t done = 0;
  for (std::size_t at = 0; at < size; at += depth) {
    if (at % (1 + width * depth) == 0) ++at;
    for (const auto level : test::reference_pixel(plain->substr(at, depth), channels)) {
      require(whole.levels[done++] == level, "other pixels than the rows have");
    }
  }
  require(done == whole.levels.size(), "another size");
}

void check(const std::uint8_t* data, std::size_t size) {
  if (size < kOptionBytes) return;
  const Request request(data);
  const std::string text(reinterpret_cast<const char*>(data) + kOptionBytes, size - kOptionBytes);
  const auto file = std::as_bytes(std::span(data + kOptionBytes, size - kOptionBytes));
  PngDecoder decoder;
  // The caller reads the size first. Here it is read from wherever it should be.
  if (text.size() < 24) {
    require(!decode(decoder, file, whole_of(1, 1), request).is_good, "too few bytes were taken");
    return;
  }
  const std::int64_t width = load(text, 16);
  const std::int64_t height = load(text, 20);
  if (width == 0 || height == 0 || width > kMostPixels / height) {
    require(height != 0 || !decode(decoder, file, whole_of(1, 1), request).is_good, "no rows");
    return;
  }
  const ImageView all = whole_of(height, width);
  const ImageView view = request.view(height, width);
  const Decoded whole = decode(decoder, file, all, request);
  const Decoded part = decode(decoder, file, view, request);
  PngDecoder fresh;
  const Decoded again = decode(fresh, file, view, request);
  require(part.levels == again.levels, "a decoder that was used before has other pixels");
  require(part.is_good == whole.is_good, "a part is good and the whole is not, or the reverse");
  if (!whole.is_good) return;
  compare(part, whole, view, all, request.channels());
  // What follows the end of the image is not used.
  const std::size_t end = text.find(test::png_chunk("IEND", ""));
  const auto chunks = split_png(text.substr(0, end + 12));
  if (chunks) compare_with_rows(whole, *chunks, request.channels());
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  if (size < kOptionBytes || seed % 6 == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (seed % 6 == 1) {
    LLVMFuzzerMutate(data, kOptionBytes, kOptionBytes);
    return size;
  }
  const std::string file(reinterpret_cast<const char*>(data) + kOptionBytes, size - kOptionBytes);
  const std::string mutated = PngMutator(seed).mutate(file, max_size - kOptionBytes);
  const std::size_t room = std::min(mutated.size(), max_size - kOptionBytes);
  std::memcpy(data + kOptionBytes, mutated.data(), room);
  return kOptionBytes + room;
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
