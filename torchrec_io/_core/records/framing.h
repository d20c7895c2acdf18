// TFRecord framing: u64 length, u32 masked crc32c(length), data, u32 masked crc32c(data);
// little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "wire/bytes.h"

namespace tio {

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameFooterBytes = 4;
inline constexpr std::size_t kFrameOverheadBytes = kFrameHeaderBytes + kFrameFooterBytes;

// Faults of a frame.
enum class FrameFault : std::uint8_t {
  length_crc,        // the length does not match its CRC, so the start of the next frame is unknown
  past_end,          // the frame extends past the end of the file
  data_crc,          // the data does not match its CRC; the next frame starts where it should
  length_mismatch,   // a valid frame, but not of the expected length
  truncated_header,  // the file ends inside a header; reported by callers, which know its end
  too_large,         // the record is larger than the limit; reported by sweep_frames
};

struct FrameScan {
  // Stream offsets of the whole frames with headers in the window.
  std::vector<std::uint64_t> starts;
  std::uint64_t next = 0;           // stream offset where the next header should start
  std::optional<FrameFault> fault;  // fault of the frame at `next`, if any
};

// Walks the frames of `window`, which are the bytes of a stream from offset `at` on. A frame must
// start at `at`. Stops at the first frame whose header is not wholly inside the window. A frame
// that extends past `stream_end`, the size of the stream or more if it is unknown, is a fault. The
// CRCs of lengths are optional.
FrameScan scan_frames(Bytes window, std::uint64_t at, std::uint64_t stream_end,
                      bool check_lengths = true);

// Checks the frame that starts at offset `start` of `buffer` and has `length` bytes of data. The
// CRCs of the length and the data are optional.
std::optional<FrameFault> check_frame(Bytes buffer, std::uint64_t start, std::uint64_t length,
                                      bool check_crcs);

// Checks many frames, and returns the positions and faults of the invalid ones. `starts` and
// `lengths` have the same size.
std::vector<std::pair<std::size_t, FrameFault>> check_frames(Bytes buffer,
                                                             std::span<const std::int64_t> starts,
                                                             std::span<const std::int64_t> lengths,
                                                             bool check_crcs);

// The bytes before and after the data of a record in its frame.
struct FrameEnds {
  std::array<std::byte, kFrameHeaderBytes> header;
  std::array<std::byte, kFrameFooterBytes> footer;
};
FrameEnds frame_ends(Bytes record);

// Writes the frames of records to `out`, one after another. Its size is that of all records, plus
// kFrameOverheadBytes for each.
void write_frames(std::span<const Bytes> records, MutableBytes out);

}  // namespace tio
