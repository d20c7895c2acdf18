#include "records/frame_gather.h"

#include <algorithm>
#include <cstring>

#include "records/record_number.h"

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
  if (!is_inside(at, size, bytes.size())) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

}  // namespace

std::optional<std::size_t> gather_frames(std::span<const FrameBlock* const> blocks,
                                         std::span<const std::int64_t> block_numbers,
                                         const ReadPlan& plan,
                                         std::span<const std::int64_t> record_blocks,
                                         MutableBytes buffer) {
  for (std::size_t i = 0; i < plan.numbers.size(); ++i) {
    const std::size_t which = find_near(block_numbers, record_blocks[i]);
    if (which == block_numbers.size()) continue;
    const FrameBlock& block = *blocks[which];
    const ReadPlan& stored = *block.plan;
    const std::size_t at = find_near(stored.numbers, own_number(plan.numbers[i]));
    const std::int64_t size = plan.frame_sizes[i];
    if (at == stored.numbers.size() || stored.frame_sizes[at] != size) return i;
    const auto from = part_of(block.buffer, stored.frame_starts[at], size);
    const auto to = part_of(buffer, plan.frame_starts[i], size);
    if (!from || !to) return i;
    if (!from->empty()) std::memcpy(to->data(), from->data(), from->size());
  }
  return std::nullopt;
}

}  // namespace tio
