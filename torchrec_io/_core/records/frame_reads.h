// Reads the frames of a batch's records and checks them, in one go.
#pragma once

#include <cstdint>
#include <span>

#include "wire/bytes.h"
#include "records/ranges.h"

namespace tio {

// What read_ranges takes, and where the frames will be then. Neither has been checked against the
// other.
struct FrameReads {
  std::span<const int> fds;
  std::span<const std::int64_t> cuts;
  std::span<const Range> ranges;
  std::span<const std::int64_t> placed;   // where each frame starts in the buffer
  std::span<const std::int64_t> lengths;  // of its data
  MutableBytes buffer;
};

// False if anything could not be read or is not sound; whoever wants to know what reads it again.
// Adds to `waits` how often the thread slept.
bool read_sound_frames(const FrameReads& reads, bool check_data, std::uint64_t& waits);

}  // namespace tio
