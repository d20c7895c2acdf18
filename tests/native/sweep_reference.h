// A slow and simple search for the valid frames of a whole stream, to compare sweep_frames with.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "records/frame_sweep.h"
#include "reference.h"

namespace tio::test {

// Frames (start, length) and gaps (start, end, fault, is_one_frame).
struct Swept {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> frames;
  std::vector<std::tuple<std::uint64_t, std::uint64_t, FrameFault, bool>> gaps;

  bool operator==(const Swept&) const = default;
};

// Returns the fault of the frame at an offset; nothing if it is valid.
inline std::optional<FrameFault> reference_fault(Bytes stream, std::size_t at, std::uint64_t most) {
  const Bytes rest = stream.subspan(at);
  if (rest.size() < 12) return FrameFault::truncated_header;
  const auto length = load<std::uint64_t>(rest, 0);
  if (reference_masked_crc(rest.first(8)) != load<std::uint32_t>(rest, 8)) {
    return FrameFault::length_crc;
  }
  if (length > most) return FrameFault::too_large;
  if (rest.size() < 16 || length > rest.size() - 16) return FrameFault::past_end;
  const bool is_valid =
      reference_masked_crc(rest.subspan(12, length)) == load<std::uint32_t>(rest, 12 + length);
  return is_valid ? std::nullopt : std::optional(FrameFault::data_crc);
}

inline Swept reference_sweep(Bytes stream, std::uint64_t most) {
  Swept swept;
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t start = at;
    const auto fault = reference_fault(stream, at, most);
    if (!fault || fault == FrameFault::data_crc) {
      const auto length = load<std::uint64_t>(stream, at);
      const std::size_t end = at + 16 + length;
      const auto next = reference_fault(stream, end, most);
      const bool is_followed = end == stream.size() || (next != FrameFault::length_crc &&
                                                        next != FrameFault::truncated_header);
      if (!fault) swept.frames.emplace_back(at, length);
      if (fault && is_followed) swept.gaps.emplace_back(at, end, *fault, true);
      if (!fault || is_followed) {
        at = end;
        continue;
      }
    }
    do {
      ++at;
    } while (at < stream.size() && reference_fault(stream, at, most));
    swept.gaps.emplace_back(start, at, *fault, false);
  }
  return swept;
}

// Sweeps a stream in windows, as a reader does: at least `size` bytes more each time.
inline Swept sweep_in_windows(Bytes stream, std::uint64_t most, std::size_t size, bool knows_end) {
  Swept swept;
  std::optional<std::pair<std::uint64_t, FrameFault>> opened;
  std::size_t at = 0;
  std::size_t end = 0;
  while (true) {
    const bool is_end = end == stream.size();
    const std::uint64_t left = knows_end || is_end ? stream.size() - at : ~std::uint64_t{0} >> 1;
    const auto sweep = sweep_frames(stream.subspan(at, end - at), left, most, opened.has_value());
    for (std::size_t i = 0; i < sweep.starts.size(); ++i) {
      swept.frames.emplace_back(at + sweep.starts[i], sweep.lengths[i]);
    }
    for (const FrameGap& gap : sweep.gaps) {
      const auto [start, fault] = opened.value_or(std::pair(at + gap.start, gap.fault));
      swept.gaps.emplace_back(start, at + gap.end, fault, gap.is_one_frame);
      opened.reset();
    }
    if (sweep.open_gap && !opened)
      opened.emplace(at + sweep.open_gap->start, sweep.open_gap->fault);
    at += sweep.at;
    if (is_end) break;
    end =
        std::min(stream.size(), std::max(end, at + static_cast<std::size_t>(sweep.needed)) + size);
  }
  if (opened) swept.gaps.emplace_back(opened->first, stream.size(), opened->second, false);
  return swept;
}

}  // namespace tio::test
