// The records of a batch.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "wire/bytes.h"

namespace tio {

// Views of records, and the owner of their memory. The bytes must not change.
class Records {
 public:
  // Records anywhere in memory. Consecutive records are assumed to be consecutive in their file.
  explicit Records(std::vector<Bytes> views, Owner owner = nullptr)
      : owner_(std::move(owner)), views_(std::move(views)), order_(views_.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  // Returns whether every record buffer[starts[i] : starts[i] + sizes[i]] lies inside the buffer.
  static bool fits(Bytes buffer, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> sizes) {
    if (starts.size() != sizes.size()) return false;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (!is_inside(starts[i], sizes[i], buffer.size())) return false;
    }
    return true;
  }

  // Records of one buffer, in any order, that fit.
  Records(Bytes buffer, std::span<const std::int64_t> starts, std::span<const std::int64_t> sizes,
          Owner owner = nullptr)
      : owner_(std::move(owner)), order_(starts.size()) {
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

  // Returns the total size of all records.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Bytes view : views_) sum += view.size();
    return sum;
  }

  // Copies the parts of `size` bytes at offsets[i] of record which[i] to `out`, one after another.
  // Returns false and copies nothing if a part lies outside of its record, or if the parts do not
  // fill `out`.
  bool copy_parts(std::span<const std::int64_t> which, std::span<const std::int64_t> offsets,
                  std::size_t size, MutableBytes out) const {
    if (which.size() != offsets.size()) return false;
    if (size == 0 ? !out.empty() : out.size() % size != 0 || out.size() / size != which.size()) {
      return false;
    }
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (which[i] < 0 || static_cast<std::size_t>(which[i]) >= views_.size()) return false;
      const Bytes record = views_[static_cast<std::size_t>(which[i])];
      if (!is_inside(offsets[i], static_cast<std::int64_t>(size), record.size())) return false;
    }
    for (std::size_t i = 0; i < which.size() && size != 0; ++i) {
      const Bytes part = views_[static_cast<std::size_t>(which[i])];
      std::memcpy(out.data() + i * size, part.data() + offsets[i], size);
    }
    return true;
  }

  // Returns the positions of the records in the order of their memory. Neighbours in memory come
  // from one file, so they are encoded alike.
  std::span<const std::size_t> order() const { return order_; }

 private:
  Owner owner_;
  std::vector<Bytes> views_;
  std::vector<std::size_t> order_;
};

}  // namespace tio
