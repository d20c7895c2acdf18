#include "png/decoder.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "image/part.h"
#include "image/pixels.h"
#include "image/png.h"

namespace tio {
namespace {

constexpr std::array<std::uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kChunkBytes = 12;  // size, kind and checksum
constexpr std::size_t kHeaderBytes = 13;
// A byte of a DEFLATE stream yields at most so many bytes.
constexpr std::uint64_t kMostInflated = 1032;

std::uint32_t load_big_endian(const std::byte* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(at[i]);
  return value;
}

struct Header {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;
};

bool read_header(Bytes chunk, Header& header) {
  if (chunk.size() != kHeaderBytes) return false;
  header.width = load_big_endian(chunk.data());
  header.height = load_big_endian(chunk.data() + 4);
  const auto field = [chunk](std::size_t at) { return std::to_integer<int>(chunk[at]); };
  switch (field(9)) {
    case 0: header.channels = 1; break;
    case 2: header.channels = 3; break;
    case 4: header.channels = 2; break;
    case 6: header.channels = 4; break;
    default: return false;
  }
  const bool has_known_methods = field(10) == 0 && field(11) == 0 && field(12) == 0;
  return field(8) == 8 && has_known_methods && header.width > 0 && header.height > 0 &&
         header.width <= INT32_MAX && header.height <= INT32_MAX;
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* held) const { libdeflate_free_decompressor(held); }
};

}  // namespace

struct PngDecoder::State {
  Bytes file;
  std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor{
      libdeflate_alloc_decompressor()};
  Header header;
  std::vector<Bytes> parts;       // of the compressed pixels
  std::vector<std::byte> joined;  // the parts, if there are several
  std::vector<std::byte> pixels;  // rows with a byte for their filter
  std::int64_t next_row = 0;
  bool is_luma = false;
  std::int64_t first_column = 0;  // of those that are converted
  std::int64_t columns = 0;
  std::int64_t ring_size = 1;
  std::vector<std::uint8_t> ring;  // converted rows

  bool read_chunks(Bytes image, std::string& reason);
  bool read_pixels(std::string& reason);
  Bytes join_parts();
  void convert(const std::uint8_t* row, std::uint8_t* out) const;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.channels);
  }

  // The functions of image/part.h.
  bool cut_columns(std::int64_t left, std::int64_t right, std::string&) {
    first_column = left;
    columns = right - left;
    return true;
  }
  void reserve_rows(std::int64_t count) {
    ring_size = count;
    ring.resize(static_cast<std::size_t>(count * columns * 4));
  }
  bool skip_rows(std::int64_t until, std::string&) {
    next_row = std::max(next_row, until);
    return true;
  }
  bool read_rows(std::int64_t until, std::string&) {
    for (; next_row < until; ++next_row) {
      const std::size_t skipped = static_cast<std::size_t>(first_column * header.channels);
      const std::size_t at = static_cast<std::size_t>(next_row) * (1 + row_bytes()) + 1 + skipped;
      convert(reinterpret_cast<const std::uint8_t*>(&pixels[at]), ring_row(next_row));
    }
    return true;
  }
  std::uint8_t* ring_row(std::int64_t row) { return &ring[row % ring_size * columns * 4]; }
  const std::uint8_t* at_column(std::int64_t row, std::int64_t column) {
    return ring_row(row) + (column - first_column) * levels();
  }
  int levels() const { return header.channels < 3 || is_luma ? 1 : 4; }
};

PngDecoder::PngDecoder() : state_(std::make_unique<State>()) {
  if (state_->decompressor == nullptr) throw std::bad_alloc();
}

PngDecoder::~PngDecoder() = default;

// Checks all chunks up to the end of the image, and finds the compressed pixels.
bool PngDecoder::State::read_chunks(Bytes image, std::string& reason) {
  const auto fail = [&reason](const char* why) {
    reason = why;
    return false;
  };
  parts.clear();
  header = {};
  if (image.size() < kSignature.size() ||
      std::memcmp(image.data(), kSignature.data(), kSignature.size()) != 0) {
    return fail("it is not a PNG");
  }
  Bytes rest = image.subspan(kSignature.size());
  bool is_after_pixels = false;  // the last chunk was one of pixels
  while (true) {
    if (rest.size() < kChunkBytes) return fail("it is truncated");
    const std::uint32_t size = load_big_endian(rest.data());
    if (size > rest.size() - kChunkBytes) return fail("it is truncated");
    const Bytes body = rest.subspan(4, 4 + std::size_t{size});  // kind and content
    if (libdeflate_crc32(0, body.data(), body.size()) !=
        load_big_endian(body.data() + body.size())) {
      return fail("a chunk does not match its checksum");
    }
    rest = rest.subspan(kChunkBytes + size);
    const std::string kind(reinterpret_cast<const char*>(body.data()), 4);
    const Bytes content = body.subspan(4);
    if ((header.channels == 0) != (kind == "IHDR")) return fail("its header is invalid");
    if (kind == "IHDR") {
      if (!read_header(content, header)) return fail("its header is invalid");
    } else if (kind == "IDAT") {
      if (!parts.empty() && !is_after_pixels) {
        return fail("its pixels are interrupted by another chunk");
      }
      parts.push_back(content);
    } else if (kind == "IEND") {
      return true;
    } else if ((kind[0] & 0x20) == 0 && kind != "PLTE") {
      return fail("it needs an unknown chunk");
    }
    is_after_pixels = kind == "IDAT";
  }
}

Bytes PngDecoder::State::join_parts() {
  if (parts.size() == 1) return parts[0];
  joined.clear();
  for (const Bytes part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

bool PngDecoder::State::read_pixels(std::string& reason) {
  const Bytes stored = join_parts();
  const std::size_t step = 1 + row_bytes();
  const auto rows = static_cast<std::size_t>(header.height);
  // The size in the header must be possible before memory is allocated for it.
  if (rows > stored.size() * kMostInflated / step) {
    reason = "it has too few pixels";
    return false;
  }
  pixels.resize(rows * step);
  const auto result = libdeflate_zlib_decompress(decompressor.get(), stored.data(), stored.size(),
                                                 pixels.data(), rows * step, nullptr);
  switch (result) {
    case LIBDEFLATE_SUCCESS: break;
    case LIBDEFLATE_SHORT_OUTPUT: reason = "it has too few pixels"; return false;
    case LIBDEFLATE_INSUFFICIENT_SPACE: reason = "it has too many pixels"; return false;
    default: reason = "its compressed pixels are damaged"; return false;
  }
  const MutableBytes image(pixels.data(), rows * step);
  if (!unfilter_png(image, step - 1, static_cast<std::size_t>(header.channels))) {
    reason = "a row has an unknown filter";
    return false;
  }
  return true;
}

void PngDecoder::State::convert(const std::uint8_t* row, std::uint8_t* out) const {
  const auto width = static_cast<std::size_t>(columns);
  switch (header.channels) {
    case 1: std::memcpy(out, row, width); break;
    case 2:
      for (std::size_t x = 0; x < width; ++x) out[x] = row[2 * x];
      break;
    case 3: expand_triples(row, width, out); break;
    default: std::memcpy(out, row, width * 4); break;
  }
  if (is_luma) convert_to_luma(out, width);
}

bool PngDecoder::open(Bytes image, ImageHeader& header, std::string& reason) {
  constexpr std::size_t kBegin = kSignature.size() + 8;  // of the content of the first chunk
  Header& found = state_->header;
  state_->file = image;
  if (image.size() < kSignature.size() ||
      std::memcmp(image.data(), kSignature.data(), kSignature.size()) != 0) {
    reason = "it is not a PNG";
    return false;
  }
  if (image.size() < kBegin + kHeaderBytes) {
    reason = "it is truncated";
    return false;
  }
  if (std::memcmp(&image[kBegin - 4], "IHDR", 4) != 0 ||
      !read_header(image.subspan(kBegin, kHeaderBytes), found)) {
    reason = "its header is invalid";
    return false;
  }
  header = {found.height, found.width, found.channels};
  return true;
}

bool PngDecoder::decode(std::span<const ViewTarget> parts, std::string& reason) {
  constexpr std::size_t kMostKept = std::size_t{1} << 24;
  State& state = *state_;
  if (!state.read_chunks(state.file, reason)) return false;
  const auto fits = [&state](const ViewTarget& part) {
    return part.view.fits(state.header.height, state.header.width);
  };
  if (!std::ranges::all_of(parts, fits)) {
    reason = "the part to decode is not in the image";
    return false;
  }
  if (!state.read_pixels(reason)) return false;
  state.next_row = 0;
  state.is_luma = state.header.channels > 2 && parts[0].target.channels < 3;
  const bool is_done = write_parts(state, parts, reason);
  if (state.pixels.size() > kMostKept) std::vector<std::byte>().swap(state.pixels);
  return is_done;
}

}  // namespace tio
