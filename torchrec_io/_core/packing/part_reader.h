// Reads parts of the values of a document, and checks all of its values.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "example/feature_spec.h"
#include "example/sequence.h"
#include "example/value_writer.h"

namespace tio {

// A part of the values of a document. `out` has room for its values.
template <class T>
struct DocumentPart {
  std::size_t begin;
  std::size_t end;
  T* out;
  T after{};  // the value after the part, if there is one that no other part begins with
};

// Takes the values of a document in their order. Values outside of all parts are checked as the
// others are, so that an error does not depend on the parts.
template <class T>
class PartReader {
 public:
  // The parts ascend and do not overlap.
  explicit PartReader(std::span<DocumentPart<T>> parts) : parts_(parts) {}

  // Number of values so far.
  std::size_t count() const { return count_; }

  // Takes a chunk of the values of a feature.
  WriteResult take(Bytes payload) {
    if constexpr (std::same_as<T, std::int64_t>) {
      return take_int64s(payload);
    } else if constexpr (std::same_as<T, float>) {
      return take_floats(payload);
    } else if constexpr (kIsFloat) {
      return cast_floats(payload);
    } else {
      return cast_ints(payload);
    }
  }

 private:
  static constexpr bool kIsFloat =
      std::same_as<T, double> || std::same_as<T, Half> || std::same_as<T, BrainHalf>;

  WriteResult take_int64s(Bytes payload) {
    VarintReader reader(payload);
    for (; !parts_.empty() && !reader.done() && !reader.bad(); pass_part()) {
      DocumentPart<T>& part = parts_.front();
      if (count_ < part.begin) count_ += reader.skip(part.begin - count_);
      if (count_ < part.begin) break;
      if (count_ < part.end) {
        count_ += reader.read(part.out + (count_ - part.begin), part.end - count_);
        if (count_ < part.end) break;
      }
      if (reader.done() || reader.bad()) break;
      if (!is_next_adjacent()) count_ += reader.read(&part.after, 1);
    }
    if (!reader.bad()) count_ += reader.skip(SIZE_MAX);
    return reader.bad() ? WriteResult::malformed : WriteResult::good;
  }

  WriteResult take_floats(Bytes payload) {
    if (payload.size() % 4 != 0) return WriteResult::malformed;
    const std::size_t end = count_ + payload.size() / 4;
    for (; !parts_.empty(); parts_ = parts_.subspan(1)) {
      const DocumentPart<T>& part = parts_.front();
      const std::size_t first = std::max(part.begin, count_), last = std::min(part.end, end);
      if (first < last) {
        std::memcpy(part.out + (first - part.begin), payload.data() + (first - count_) * 4,
                    (last - first) * 4);
      }
      if (part.end > end) break;
    }
    count_ = end;
    return WriteResult::good;
  }

  WriteResult cast_floats(Bytes payload) {
    if (payload.size() % 4 != 0) return WriteResult::malformed;
    for (std::size_t i = 0; i < payload.size(); i += 4) {
      T value;
      if (!cast(load<float>(payload, i), value)) return WriteResult::out_of_range;
      put(value);
    }
    return WriteResult::good;
  }

  WriteResult cast_ints(Bytes payload) {
    VarintReader reader(payload);
    std::int64_t values[128];
    while (!reader.done()) {
      const std::size_t count = reader.read(values, std::size(values));
      for (std::size_t i = 0; i < count; ++i) {
        T value;
        if (!cast(values[i], value)) return WriteResult::out_of_range;
        put(value);
      }
      if (reader.bad()) return WriteResult::malformed;
    }
    return WriteResult::good;
  }

  void put(T value) {
    if (!parts_.empty() && count_ >= parts_.front().begin) {
      DocumentPart<T>* part = &parts_.front();
      if (count_ == part->end) {
        part->after = value;
        pass_part();
        part = parts_.empty() ? nullptr : &parts_.front();
      }
      if (part != nullptr && count_ >= part->begin) part->out[count_ - part->begin] = value;
    }
    ++count_;
  }

  bool is_next_adjacent() const { return parts_.size() > 1 && parts_[1].begin == count_; }
  void pass_part() { parts_ = parts_.subspan(1); }

  std::span<DocumentPart<T>> parts_;  // those that were not passed
  std::size_t count_ = 0;
};

// Reads parts of the `total` values of a document, which is a record with a list of numbers at a
// location. The parts ascend, do not overlap, and end at `total` at the latest.
template <class T>
WriteResult read_parts(const FeatureSpec& spec, Bytes record, const Location& at, std::size_t total,
                       std::span<DocumentPart<T>> parts) {
  PartReader<T> reader(parts);
  WriteResult result = WriteResult::good;
  const auto take = [&](Bytes payload) {
    result = reader.take(payload);
    return result == WriteResult::good;
  };
  // Each step has one value.
  const auto take_step = [&](const Location& step) {
    const std::size_t before = reader.count();
    return visit_values(record, step, take) && reader.count() == before + 1;
  };
  const bool is_whole = spec.in_lists ? walk_steps(record, at, stored_kind(spec.dtype), take_step)
                                      : visit_values(record, at, take);
  if (!is_whole) return result == WriteResult::good ? WriteResult::malformed : result;
  return reader.count() == total ? WriteResult::good : WriteResult::wrong_count;
}

}  // namespace tio
