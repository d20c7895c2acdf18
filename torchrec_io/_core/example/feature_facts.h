// Facts about the values of a feature in some records.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "example/byte_format.h"
#include "example/feature.h"

namespace tio {

// The smallest and the largest of some numbers. NaN is ignored.
template <class T>
struct Extent {
  using Limits = std::numeric_limits<T>;
  T least = Limits::has_infinity ? Limits::infinity() : Limits::max();
  T most = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();

  bool empty() const { return least > most; }
  void add(T value) {
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  void add(const Extent& other) {
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
  }
};

// A bit for each kind in a set of kinds.
constexpr std::uint8_t kind_bit(Kind kind) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}

struct ValueFacts {
  std::uint8_t kinds = 0;        // those of all lists
  Extent<std::uint64_t> counts;  // number of values of a list
  Extent<std::int64_t> ints;
  Extent<float> floats;
  Extent<std::uint64_t> sizes;  // of values that are bytes

  void add(const ValueFacts& other) {
    kinds |= other.kinds;
    counts.add(other.counts);
    if ((other.kinds & kind_bit(Kind::ints)) != 0) ints.add(other.ints);
    if ((other.kinds & kind_bit(Kind::floats)) != 0) floats.add(other.floats);
    if ((other.kinds & kind_bit(Kind::bytes)) != 0) sizes.add(other.sizes);
  }
};

// Formats of values that are bytes, in the order in which they were seen.
class FormatCounts {
 public:
  struct Count {
    ByteFormat format = ByteFormat::empty;
    std::uint64_t values = 0;
  };

  void add(ByteFormat format) {
    const auto seen = std::span(counts_).first(size_);
    const auto at = std::ranges::find(seen, format, &Count::format);
    if (at != seen.end()) {
      ++at->values;
    } else {
      counts_[size_++] = {format, 1};
    }
  }

  std::span<const Count> all() const { return std::span(counts_).first(size_); }
  bool are_images() const {
    return std::ranges::all_of(all(), [](const Count& count) { return is_image(count.format); });
  }

 private:
  std::array<Count, kByteFormats> counts_;
  std::size_t size_ = 0;
};

struct FeatureFacts {
  std::uint64_t records = 0;    // with the feature, also without a list of values
  std::uint64_t present = 0;    // with a list of values, or with the feature list
  Extent<std::uint64_t> steps;  // number of steps of a feature list
  ValueFacts values;
  FormatCounts formats;
  // Whether a value looks like an image and is not one, or is too large to decode.
  bool has_invalid_image = false;
};

}  // namespace tio
