// TFRecord framing: u64 length, u32 masked crc32c(length), data, u32 masked crc32c(data);
// little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "wire/bytes.h"

namespace tio {

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameFooterBytes = 4;
inline constexpr std::size_t kFrameOverheadBytes = kFrameHeaderBytes + kFrameFooterBytes;

enum class FrameFault : std::uint8_t {
  none,
  length_crc,   // the length's CRC does not match: where the next record starts is unknown
  past_end,     // the length is sound but reaches past the end of the file
  data_crc,     // the data's CRC does not match; the next record is where it should be
  other_length  // a sound frame, but not of the length that the index says
};

struct FrameScan {
  std::vector<std::uint64_t>
      starts;              // stream offsets of whole frames whose header lies in the window
  std::uint64_t next = 0;  // stream offset where the next header should start
  FrameFault fault = FrameFault::none;  // what is wrong with the frame at `next`, if anything
};

// Walks the frames of `window`, the bytes of a stream from offset `at` on; `at` must be the start
// of a frame. Stops at the first frame whose header is not wholly inside the window. `stream_end`
// is the size of the stream where it is known: a frame that reaches past it is a fault.
FrameScan scan_frames(Bytes window, std::uint64_t at, std::uint64_t stream_end);

// Checks one frame: `start` is where its header starts in `buffer`, `length` the data bytes
// expected.
FrameFault check_frame(Bytes buffer, std::uint64_t start, std::uint64_t length, bool check_data);

// What stands around a record's data in its frame.
struct FrameEnds {
  std::array<std::byte, kFrameHeaderBytes> header;
  std::array<std::byte, kFrameFooterBytes> footer;
};
FrameEnds frame_ends(Bytes record);

// Writes a record's frame, which is kFrameOverheadBytes larger than the record, to the front of
// `out`.
void write_frame(Bytes record, MutableBytes out);

}  // namespace tio
