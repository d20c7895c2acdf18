#include "order/lane_permutation.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tio {

LanePermutation::LanePermutation(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                                 std::uint64_t lanes, std::uint64_t key)
    : block_(std::min(block, size)),
      lanes_(lanes),
      rounds_(size / block_ / lanes),
      pieces_(rounds_ * lanes * block_),
      piece_((size - pieces_) / lanes),
      extra_((size - pieces_) % lanes),
      window_(std::min(window, size)),
      window_key_(mix(key + 1)),
      place_key_(mix(key + 2)),
      blocks_(std::max<std::uint64_t>(1, rounds_ * lanes), mix(key)),
      long_pieces_(std::max<std::uint64_t>(1, extra_), mix(key + 3)),
      short_pieces_(lanes - extra_, mix(key + 4)) {}

std::uint64_t LanePermutation::piece_size(std::uint64_t lane) const {
  return piece_ + (lane < extra_ ? 1 : 0);
}

std::uint64_t LanePermutation::lane_size(std::uint64_t lane) const {
  return rounds_ * block_ + piece_size(lane);
}

// Returns the place of a lane at which its piece begins: before, between or after its blocks.
std::uint64_t LanePermutation::piece_begin(std::uint64_t lane) const {
  return mix(place_key_ ^ mix(lane)) % (rounds_ + 1) * block_;
}

// Returns the value at a place of the piece that a lane has.
std::uint64_t LanePermutation::piece_value(std::uint64_t lane, std::uint64_t place) const {
  if (lane < extra_) return pieces_ + long_pieces_(lane) * (piece_ + 1) + place;
  const std::uint64_t number = extra_ + short_pieces_(lane - extra_);
  return pieces_ + extra_ + number * piece_ + place;
}

// Replaces the places of lanes by those that come there, by windows of each lane.
void LanePermutation::mix_windows(std::span<const std::uint64_t> lanes,
                                  std::span<std::uint64_t> places) const {
  std::array<std::uint64_t, kChunk> inside;
  std::array<std::size_t, kChunk> indices;
  std::array<std::size_t, kChunk> waiting;
  std::size_t count = places.size();
  std::iota(waiting.begin(), waiting.begin() + count, std::size_t{0});
  while (count > 0) {
    // All places in the window of the first one are computed together. The others wait.
    const std::uint64_t lane = lanes[waiting[0]];
    const std::uint64_t number = places[waiting[0]] / window_;
    const std::uint64_t begin = number * window_;
    const std::uint64_t size = std::min(window_, lane_size(lane) - begin);
    std::size_t together = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = waiting[i];
      const std::uint64_t value = places[at] - begin;
      const bool is_inside = lanes[at] == lane && value < size;
      inside[together] = value;
      indices[together] = at;
      waiting[others] = at;
      together += is_inside ? 1 : 0;
      others += is_inside ? 0 : 1;
    }
    const Permutation inner(size, mix(mix(window_key_ ^ mix(lane)) ^ mix(number)));
    inner.apply(std::span(inside).first(together));
    for (std::size_t i = 0; i < together; ++i) places[indices[i]] = begin + inside[i];
    count = others;
  }
}

void LanePermutation::apply_chunk(std::span<std::uint64_t> positions) const {
  std::array<std::uint64_t, kChunk> lanes;
  std::array<std::uint64_t, kChunk> blocks;
  std::array<std::size_t, kChunk> indices;
  std::array<std::uint64_t, kChunk> offsets;
  const std::size_t count = positions.size();
  for (std::size_t i = 0; i < count; ++i) {
    lanes[i] = positions[i] % lanes_;
    positions[i] /= lanes_;
  }
  mix_windows(std::span(lanes).first(count), positions);
  std::size_t in_blocks = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t lane = lanes[i];
    const std::uint64_t begin = piece_begin(lane);
    const std::uint64_t size = piece_size(lane);
    const std::uint64_t place = positions[i];
    if (place >= begin && place - begin < size) {
      positions[i] = piece_value(lane, place - begin);
      continue;
    }
    const std::uint64_t in_rounds = place < begin ? place : place - size;
    blocks[in_blocks] = in_rounds / block_ * lanes_ + lane;
    offsets[in_blocks] = in_rounds % block_;
    indices[in_blocks++] = i;
  }
  blocks_.apply_repeated(std::span(blocks).first(in_blocks));
  for (std::size_t i = 0; i < in_blocks; ++i) {
    positions[indices[i]] = blocks[i] * block_ + offsets[i];
  }
}

void LanePermutation::apply(std::span<std::uint64_t> positions) const {
  for (; positions.size() > kChunk; positions = positions.subspan(kChunk)) {
    apply_chunk(positions.first(kChunk));
  }
  apply_chunk(positions);
}

}  // namespace tio
