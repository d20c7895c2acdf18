// Streams that libdeflate compresses, as seeds and for tests.
#pragma once

#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "inflate/stream.h"

namespace tio::test {

using Format = InflateStream::Format;

inline std::string deflated(const std::string& bytes, Format format, int level = 6) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
  if (compressor == nullptr) std::abort();
  std::string out(libdeflate_gzip_compress_bound(compressor, bytes.size()), '\0');
  const auto compress = format == Format::gzip   ? libdeflate_gzip_compress
                        : format == Format::zlib ? libdeflate_zlib_compress
                                                 : libdeflate_deflate_compress;
  out.resize(compress(compressor, bytes.data(), bytes.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

// Returns bytes with repeats near and far, and noise.
inline std::string repeating_bytes(std::size_t size, std::mt19937_64& random) {
  std::string out;
  while (out.size() < size) {
    const std::size_t length = 1 + random() % 400;
    if (out.empty() || random() % 4 == 0) {
      for (std::size_t i = 0; i < length; ++i) out.push_back(static_cast<char>(random()));
    } else {
      const std::size_t distance = 1 + random() % std::min<std::size_t>(out.size(), 40000);
      for (std::size_t i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
    }
  }
  out.resize(size);
  return out;
}

// Writes bits from the lowest one on, and Huffman codes from their highest bit on.
class BitWriter {
 public:
  void bits(std::uint32_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) put(value >> i & 1);
  }
  void code(std::uint32_t value, unsigned count) {
    for (unsigned i = count; i > 0; --i) put(value >> (i - 1) & 1);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint32_t bit) {
    if (size_ % 8 == 0) bytes_.push_back('\0');
    bytes_.back() = static_cast<char>(bytes_.back() | static_cast<char>(bit << size_ % 8));
    ++size_;
  }

  std::string bytes_;
  unsigned size_ = 0;
};

}  // namespace tio::test
