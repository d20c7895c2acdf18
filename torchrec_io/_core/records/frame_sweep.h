// Search for all valid frames of a damaged stream.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "records/framing.h"
#include "wire/bytes.h"

namespace tio {

// A part of a stream without valid frames.
struct FrameGap {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  FrameFault fault = FrameFault::length_crc;  // fault of the frame at `start`
  bool is_one_frame = false;                  // one frame with damaged data, exactly
};

// The frames and gaps of a window, in order. All offsets are offsets in the window.
struct FrameSweep {
  std::vector<std::uint64_t> starts;   // of the valid frames
  std::vector<std::uint64_t> lengths;  // of their data
  std::vector<FrameGap> gaps;          // those that end in the window
  std::uint64_t at = 0;                // everything before this offset is decided
  std::uint64_t needed = 0;            // bytes from `at` on that are needed to decide more
  // Start and fault of a gap that continues at `at`. The start is 0 for a gap that began earlier.
  std::optional<FrameGap> open_gap;
};

// Finds the valid frames of a window: those whose length and data match their CRCs, 64 bits in all.
// A frame with a valid length and damaged data is one gap if a valid header, or the end of the
// stream, follows it. After any other fault, all offsets after that of the damaged frame are
// searched.
//
// `left` is the number of bytes of the stream from the start of the window on, or more if it is
// unknown. If it is the size of the window, everything is decided. `is_in_gap` continues a gap
// of an earlier window. A frame of more than `max_record_bytes` of data counts as damaged.
//
// The time is proportional to the size of the window, even if every 12 bytes look like a header.
FrameSweep sweep_frames(Bytes window, std::uint64_t left, std::uint64_t max_record_bytes,
                        bool is_in_gap);

}  // namespace tio
