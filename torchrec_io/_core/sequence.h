// The steps of a tf.train.FeatureList: where each one's values lie.
#pragma once

#include <cstdint>

#include "bytes.h"
#include "feature.h"

namespace tio {

namespace sequence_detail {

// Writers spell nearly every step in the same way, and all its lengths follow from its own:
//
//   0a L | kind L-2 | 0a L-4 | values
//
// With lengths of one byte, these six are compared at once.
inline bool match_plain_step(Bytes record, std::size_t at, std::size_t limit, Kind kind,
                             Location& step) {
  if (record.size() - at < 8) return false;
  const auto word = load<std::uint64_t>(record, at);
  const std::uint64_t length = word >> 8 & 0xff;
  if (length < 4 || length >= 0x80 || length > limit - at - 2) return false;
  const std::uint64_t wanted =
      0x0a | (length << 8) |
      (std::uint64_t{wire::tag(static_cast<std::uint32_t>(kind), wire::delimited)} << 16) |
      ((length - 2) << 24) | (std::uint64_t{0x0a} << 32) | ((length - 4) << 40);
  if ((word & 0xffffffffffffU) != wanted) return false;
  step = {static_cast<std::uint32_t>(at + 6), static_cast<std::uint32_t>(length - 4), Form::single,
          kind};
  return true;
}

// Reads the field of a FeatureList at `at` and moves behind it. Not every field is a step.
bool read_field(Bytes record, std::size_t& at, std::size_t limit, bool& is_step, Location& step);

}  // namespace sequence_detail

// Calls `visit(step)` with the location of each step's values, for the FeatureList that lies in
// [at, limit) of the record. Steps are expected to be of kind `likely`.
template <class Visit>
bool walk_list_steps(Bytes record, std::size_t at, std::size_t limit, Kind likely, Visit&& visit) {
  while (at < limit) {
    Location step;
    bool is_step = true;
    if (limit - at >= 2 && sequence_detail::match_plain_step(record, at, limit, likely, step)) {
      at = std::size_t{step.offset} + step.size;
    } else if (!sequence_detail::read_field(record, at, limit, is_step, step)) {
      return false;
    }
    if (is_step && !visit(step)) return false;
  }
  return true;
}

// Calls `visit(step)` for each step of a feature list of any form; stops when it returns false.
template <class Visit>
bool walk_steps(Bytes record, const Location& at, Kind likely, Visit&& visit) {
  const std::size_t end = std::size_t{at.offset} + at.size;
  if (at.form == Form::missing) return true;
  if (at.form == Form::list) return walk_list_steps(record, at.offset, end, likely, visit);
  if (at.form != Form::lists) return false;
  return feature_detail::walk_fields(at.of(record), feature_detail::kValueTag, [&](Bytes steps) {
    const auto from = static_cast<std::size_t>(steps.data() - record.data());
    return walk_list_steps(record, from, from + steps.size(), likely, visit);
  });
}

}  // namespace tio
