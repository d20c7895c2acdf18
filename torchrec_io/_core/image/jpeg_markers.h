// The markers of JPEG files (ITU-T T.81, annex B), read before a decoder sees the file.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/bytes.h"

namespace tio {

// Reason to refuse a JPEG without decoding it.
enum class JpegFault : std::uint8_t {
  truncated,
  invalid_marker,
  several_frames,
  unsupported_coding,
  unsupported_precision,
  too_many_scans,
  too_many_segments,
  stray_bytes,
  missing_scans,
  missing_restarts,
};

// Encoders write at most 18 scans (progressive CMYK). Each takes as long as an image: a file of
// 400 KB with thousands of scans takes a decoder minutes.
inline constexpr std::uint32_t kMaxJpegScans = 64;

// Segments, their bytes, and stray bytes that a file may have outside of its scans. Pillow handles
// each segment and each stray byte in Python, and joins segments of EXIF data one by one.
inline constexpr std::uint32_t kMaxJpegSegments = 4096;
inline constexpr std::size_t kMaxJpegSegmentBytes = std::size_t{1} << 24;
inline constexpr std::size_t kMaxStrayJpegBytes = std::size_t{1} << 16;

// What the markers of a JPEG say. The fields of the frame are 0 if a fault comes before it.
struct JpegMarkers {
  std::optional<JpegFault> fault;
  std::uint8_t coding = 0;     // second byte of the frame's marker: 0xc0 for baseline, ...
  std::uint8_t precision = 0;  // bits of a value
  std::uint16_t width = 0;
  std::uint16_t height = 0;
  std::uint32_t scans = 0;
};

// Reads the markers from the start of the file to its end marker; bytes after that are ignored.
// Nothing is decoded, so damage inside of a scan is not found. Stops at the first fault.
//
// A file is complete if every component has all bits of all coefficients, and every scan the
// restart markers that its size needs.
JpegMarkers read_jpeg_markers(Bytes data, std::uint32_t max_scans);

}  // namespace tio
