// The order of records that are divided among lanes, as a function of the position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "order/permutation.h"

namespace tio {

// A permutation of 0..size-1. Position p is place p / lanes of lane p % lanes. Each lane has
// the same number of whole blocks of `block` values, assigned in a uniform random order. The values
// after them are cut into one piece for each lane; the first `size % lanes` pieces, which go to the
// first lanes, are longer by one value. A lane has its piece at a random place between its blocks.
// Then each `window` places of a lane are permuted uniformly.
class LanePermutation {
 public:
  LanePermutation(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                  std::uint64_t lanes, std::uint64_t key);

  // Replaces each position by its value.
  void apply(std::span<std::uint64_t> positions) const;

 private:
  static constexpr std::size_t kChunk = 256;

  std::uint64_t piece_size(std::uint64_t lane) const;
  std::uint64_t lane_size(std::uint64_t lane) const;
  std::uint64_t piece_begin(std::uint64_t lane) const;
  std::uint64_t piece_value(std::uint64_t lane, std::uint64_t place) const;
  void apply_chunk(std::span<std::uint64_t> positions) const;
  void mix_windows(std::span<const std::uint64_t> lanes, std::span<std::uint64_t> places) const;

  std::uint64_t block_;
  std::uint64_t lanes_;
  std::uint64_t rounds_;  // number of whole blocks of a lane
  std::uint64_t pieces_;  // first value of the pieces
  std::uint64_t piece_;   // size of the shorter pieces
  std::uint64_t extra_;   // number of longer pieces
  std::uint64_t window_;
  std::uint64_t window_key_;
  std::uint64_t place_key_;
  Permutation blocks_;
  Permutation long_pieces_;
  Permutation short_pieces_;
};

}  // namespace tio
