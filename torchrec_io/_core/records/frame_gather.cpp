#include "records/frame_gather.h"

#include <algorithm>
#include <cstring>

namespace tio {
namespace {

// Returns the position of a number among ascending ones, or their count if it is missing.
std::size_t find(std::span<const std::int64_t> ascending, std::int64_t number) {
  const auto at = std::ranges::lower_bound(ascending, number);
  if (at == ascending.end() || *at != number) return ascending.size();
  return static_cast<std::size_t>(at - ascending.begin());
}

// Does the same, at once if the numbers are consecutive.
std::size_t find_near(std::span<const std::int64_t> ascending, std::int64_t number) {
  if (!ascending.empty() && number >= ascending.front() && number <= ascending.back()) {
    const auto guess =
        static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(ascending.front());
    if (guess < ascending.size() && ascending[guess] == number) return guess;
  }
  return find(ascending, number);
}

// Returns a part of some bytes, or nothing if it does not lie inside of them.
template <class T>
std::optional<std::span<T>> part_of(std::span<T> bytes, std::int64_t at, std::int64_t size) {
  const auto end = static_cast<std::int64_t>(bytes.size());
  if (at < 0 || size < 0 || at > end || size > end - at) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

}  // namespace

std::optional<std::size_t> gather_frames(std::span<const FrameBlock> blocks,
                                         std::span<const std::int64_t> block_numbers,
                                         const WantedFrames& wanted, MutableBytes buffer) {
  for (std::size_t i = 0; i < wanted.numbers.size(); ++i) {
    const std::size_t which = find_near(block_numbers, wanted.blocks[i]);
    if (which == block_numbers.size()) continue;
    const FrameBlock& block = blocks[which];
    const std::size_t at = find_near(block.numbers, wanted.numbers[i]);
    if (at == block.numbers.size() || block.frame_sizes[at] != wanted.frame_sizes[i]) return i;
    const auto from = part_of(block.buffer, block.frame_starts[at], wanted.frame_sizes[i]);
    const auto to = part_of(buffer, wanted.frame_starts[i], wanted.frame_sizes[i]);
    if (!from || !to) return i;
    if (!from->empty()) std::memcpy(to->data(), from->data(), from->size());
  }
  return std::nullopt;
}

}  // namespace tio
