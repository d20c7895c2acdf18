// Builds TFRecord frames, and corrects the checksums of damaged data, so that tests reach the
// checks that follow those of the checksums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encode.h"
#include "reference.h"
#include "wire/bytes.h"

namespace tio::test {

// Returns a frame with `length` in its header, whatever the size of its data.
inline std::string frame(const std::string& data, std::uint64_t length) {
  const std::string header = little_endian(length);
  return header + little_endian(reference_masked_crc(std::as_bytes(std::span(header)))) + data +
         little_endian(reference_masked_crc(std::as_bytes(std::span(data))));
}

inline std::string frame(const std::string& data) { return frame(data, data.size()); }

// Walks frames by the lengths in their headers and rewrites their checksums.
inline void repair_frames(MutableBytes stream, bool lengths, bool data) {
  std::size_t at = 0;
  while (stream.size() - at >= 12) {
    const auto length = load<std::uint64_t>(stream, at);
    if (lengths) store(stream, at + 8, reference_masked_crc(stream.subspan(at, 8)));
    if (length > stream.size() - at - 12 || stream.size() - at - 12 - length < 4) return;
    const std::uint32_t crc = reference_masked_crc(stream.subspan(at + 12, length));
    if (data) store(stream, at + 12 + length, crc);
    at += 16 + length;
  }
}

// Rewrites both checksums of an index: that of everything after the header, and that of the header.
inline void repair_index(MutableBytes file) {
  if (file.size() < 104) return;
  store(file, 96, reference_crc32c(file.subspan(104)));
  store(file, 100, reference_crc32c(file.first(100)));
}

}  // namespace tio::test
