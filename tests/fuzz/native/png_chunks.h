// PNGs as chunks: taken apart, and mutated with right checksums, without which nothing is decoded.
#pragma once

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "png_writer.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tio::fuzz {

struct Chunk {
  std::string kind;
  std::string content;
};

// Splits a PNG into its chunks, whatever their checksums. Returns nothing if it cannot be split.
inline std::optional<std::vector<Chunk>> split_png(const std::string& file) {
  if (file.compare(0, test::kPngSignature.size(), test::kPngSignature) != 0) return std::nullopt;
  std::vector<Chunk> chunks;
  for (std::size_t at = test::kPngSignature.size(); at < file.size();) {
    if (file.size() - at < 12) return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(file[at + i]);
    if (size > file.size() - at - 12) return std::nullopt;
    chunks.push_back({file.substr(at + 4, 4), file.substr(at + 8, size)});
    at += 12 + size;
  }
  return chunks;
}

inline std::string join_png(const std::vector<Chunk>& chunks) {
  std::string file = test::kPngSignature;
  for (const Chunk& chunk : chunks) file += test::png_chunk(chunk.kind, chunk.content);
  return file;
}

inline std::string joined_pixels(const std::vector<Chunk>& chunks) {
  std::string all;
  for (const Chunk& chunk : chunks) all += chunk.kind == "IDAT" ? chunk.content : "";
  return all;
}

// Returns the bytes of a raw DEFLATE stream, if it is good and they are not more than `most`.
inline std::optional<std::string> inflate(const std::string& stream, std::size_t most) {
  libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  if (decompressor == nullptr) std::abort();
  std::string out(most, '\0');
  std::size_t size = 0;
  const auto result = libdeflate_deflate_decompress(decompressor, stream.data(), stream.size(),
                                                    out.data(), out.size(), &size);
  libdeflate_free_decompressor(decompressor);
  if (result != LIBDEFLATE_SUCCESS) return std::nullopt;
  out.resize(size);
  return out;
}

// The rows of a zlib stream, with whatever checksum.
inline std::optional<std::string> inflate_zlib(const std::string& stream, std::size_t most) {
  if (stream.size() < 6) return std::nullopt;
  return inflate(stream.substr(2, stream.size() - 6), most);
}

class PngMutator {
 public:
  explicit PngMutator(unsigned seed) : random_(seed) {}

  std::string mutate(const std::string& file, std::size_t max_size) {
    auto chunks = split_png(file);
    if (!chunks || chunks->empty() || below(10) == 0) return mutate_bytes(file, max_size);
    switch (below(6)) {
      case 0: change_order(*chunks); break;
      case 1: change_content((*chunks)[below(chunks->size())]); break;
      case 2: change_header(chunks->front()); break;
      case 3: change_stream(*chunks); break;
      default: change_rows(*chunks); break;
    }
    return join_png(*chunks);
  }

 private:
  static constexpr std::size_t kMostRows = 1 << 18;  // bytes

  std::size_t below(std::size_t limit) { return random_() % limit; }

  static std::string mutate_bytes(const std::string& bytes, std::size_t max_size) {
    std::string out = bytes;
    out.resize(std::max(bytes.size(), std::min(bytes.size() + 64, max_size)) + 1);
    out.resize(
        LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(out.data()), bytes.size(), out.size()));
    return out;
  }

  static void change_content(Chunk& chunk) {
    chunk.content = mutate_bytes(chunk.content, chunk.content.size() + 64);
  }

  void change_order(std::vector<Chunk>& chunks) {
    static const std::array<Chunk, 4> added = {
        {{"IDAT", ""}, {"tEXt", "text"}, {"PLTE", "abc"}, {"ABCD", ""}}};
    const std::size_t at = below(chunks.size());
    const auto place = chunks.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(4)) {
      case 0: chunks.erase(place); break;
      case 1: std::swap(chunks[at], chunks[below(chunks.size())]); break;
      case 2: chunks.insert(place, Chunk(chunks[below(chunks.size())])); break;
      default: chunks.insert(place, added[below(added.size())]); break;
    }
  }

  // Sets a size to a small one, or the kind of color to a known one.
  void change_header(Chunk& chunk) {
    if (chunk.kind != "IHDR" || chunk.content.size() != 13) return change_content(chunk);
    const std::size_t at = below(3);
    if (at == 2) {
      chunk.content[9] = static_cast<char>(std::array{0, 2, 4, 6}[below(4)]);
    } else {
      chunk.content.replace(at * 4, 4, test::big_endian(static_cast<std::uint32_t>(below(70))));
    }
  }

  // Changes the compressed bytes, whose checksum is that of what they become.
  void change_stream(std::vector<Chunk>& chunks) {
    std::string stream = joined_pixels(chunks);
    stream = mutate_bytes(stream, stream.size() + 64);
    const auto rows = inflate_zlib(stream, kMostRows);
    if (rows) {
      const std::uint32_t sum = libdeflate_adler32(1, rows->data(), rows->size());
      stream.replace(stream.size() - 4, 4, test::big_endian(sum));
    }
    replace_pixels(chunks, stream);
  }

  // Changes the rows, which mostly keep the size that the header asks for.
  void change_rows(std::vector<Chunk>& chunks) {
    auto rows = inflate_zlib(joined_pixels(chunks), kMostRows);
    if (!rows) return change_stream(chunks);
    *rows = mutate_bytes(*rows, rows->size() + 64);
    const auto size = size_of_rows(chunks.front());
    if (size && below(12) != 0) rows->resize(*size);
    replace_pixels(chunks, test::compress_zlib(*rows));
  }

  static std::optional<std::size_t> size_of_rows(const Chunk& header) {
    if (header.kind != "IHDR" || header.content.size() != 13) return std::nullopt;
    const auto field = [&header](std::size_t at) {
      std::size_t value = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        value = value << 8 | static_cast<unsigned char>(header.content[at + i]);
      }
      return value;
    };
    const int color = header.content[9];
    const std::size_t channels = (color & 2 ? 3 : 1) + (color & 4 ? 1 : 0);
    const std::size_t row = 1 + field(0) * channels;
    if (field(4) == 0 || row > kMostRows / field(4)) return std::nullopt;
    return row * field(4);
  }

  // Puts compressed pixels where the first IDAT chunk was, in some pieces.
  void replace_pixels(std::vector<Chunk>& chunks, const std::string& stream) {
    const auto is_idat = [](const Chunk& chunk) { return chunk.kind == "IDAT"; };
    const auto place = std::find_if(chunks.begin(), chunks.end(), is_idat) - chunks.begin();
    std::erase_if(chunks, is_idat);
    const std::size_t pieces = 1 + below(3);
    std::vector<Chunk> added;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t begin = stream.size() * i / pieces;
      added.push_back({"IDAT", stream.substr(begin, stream.size() * (i + 1) / pieces - begin)});
    }
    chunks.insert(chunks.begin() + place, added.begin(), added.end());
  }

  std::minstd_rand random_;
};

}  // namespace tio::fuzz
