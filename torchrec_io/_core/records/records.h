// The records of a batch: views of bytes that somebody else keeps alive and unchanged.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "wire/bytes.h"

namespace tio {

class Records {
 public:
  // Records anywhere in memory; neighbours in the batch are taken to be neighbours in their file.
  explicit Records(std::vector<Bytes> views) : views_(std::move(views)), order_(views_.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  // Whether every record buffer[starts[i], starts[i] + sizes[i]) lies inside the buffer.
  static bool fits(Bytes buffer, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> sizes) {
    if (starts.size() != sizes.size()) return false;
    const auto end = static_cast<std::int64_t>(buffer.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (starts[i] < 0 || sizes[i] < 0 || starts[i] > end || sizes[i] > end - starts[i]) {
        return false;
      }
    }
    return true;
  }

  // Records of one buffer, in any order, for which `fits`.
  Records(Bytes buffer, std::span<const std::int64_t> starts, std::span<const std::int64_t> sizes)
      : order_(starts.size()) {
    views_.reserve(starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      views_.push_back(
          buffer.subspan(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(sizes[i])));
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    if (!std::ranges::is_sorted(starts)) {
      std::ranges::sort(order_, {}, [starts](std::size_t i) { return std::pair(starts[i], i); });
    }
  }

  std::size_t size() const { return views_.size(); }
  Bytes operator[](std::size_t record) const { return views_[record]; }

  // Of all records together.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Bytes view : views_) sum += view.size();
    return sum;
  }

  // Copies `size` bytes of record which[i], from offsets[i] on, one part behind the other. False,
  // and nothing copied, if a part lies outside of its record or they do not fill `out`.
  bool copy_parts(std::span<const std::int64_t> which, std::span<const std::int64_t> offsets,
                  std::size_t size, MutableBytes out) const {
    if (which.size() != offsets.size()) return false;
    if (size == 0 ? !out.empty() : out.size() % size != 0 || out.size() / size != which.size()) {
      return false;
    }
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (which[i] < 0 || static_cast<std::size_t>(which[i]) >= views_.size()) return false;
      const std::size_t length = views_[static_cast<std::size_t>(which[i])].size();
      if (offsets[i] < 0 || static_cast<std::size_t>(offsets[i]) > length) return false;
      if (size > length - static_cast<std::size_t>(offsets[i])) return false;
    }
    for (std::size_t i = 0; i < which.size() && size != 0; ++i) {
      const Bytes part = views_[static_cast<std::size_t>(which[i])];
      std::memcpy(out.data() + i * size, part.data() + offsets[i], size);
    }
    return true;
  }

  // Positions of the records as they follow each other in memory: neighbours there are of one
  // file, hence spelled alike.
  std::span<const std::size_t> order() const { return order_; }

 private:
  std::vector<Bytes> views_;
  std::vector<std::size_t> order_;
};

}  // namespace tio
