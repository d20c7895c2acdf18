// The steps of a tf.train.FeatureList: where each one's values lie.
#pragma once

#include <cstdint>

#include "wire/bytes.h"
#include "example/feature.h"

namespace tio {

// Steps that follow each other and are spelled as writers spell nearly all of them: a Feature of
// one list of one chunk, with lengths of one byte. They are found many at a time, so that the loop
// which finds them and the one that reads their values are both short.
struct StepRun {
  static constexpr std::size_t kMost = 64;

  std::size_t count = 0;
  Kind kind = Kind::none;
  std::uint32_t offsets[kMost];  // of the values; eight bytes can be loaded from there
  std::uint8_t sizes[kMost];

  Location operator[](std::size_t i) const { return {offsets[i], sizes[i], Form::single, kind}; }
};

namespace sequence_detail {

// Finds such steps of kind `run.kind` from `at` on; gives where it stopped.
std::size_t find_run(Bytes record, std::size_t at, std::size_t limit, StepRun& run);

// Reads the field of a FeatureList at `at` and moves behind it. Not every field is a step.
bool read_field(Bytes record, std::size_t& at, std::size_t limit, bool& is_step, Location& step);

}  // namespace sequence_detail

// Calls `visit_run(run)` or `visit(step)` for the steps of the FeatureList that lies in [at, limit)
// of the record, in their order. Steps are expected to be of kind `likely`.
template <class VisitRun, class Visit>
bool walk_list_steps(Bytes record, std::size_t at, std::size_t limit, Kind likely,
                     VisitRun&& visit_run, Visit&& visit) {
  StepRun run;
  run.kind = likely;
  while (at < limit) {
    at = sequence_detail::find_run(record, at, limit, run);
    if (run.count != 0 && !visit_run(run)) return false;
    if (at == limit || run.count == StepRun::kMost) continue;
    Location step;
    bool is_step = false;
    if (!sequence_detail::read_field(record, at, limit, is_step, step)) return false;
    if (is_step && !visit(step)) return false;
  }
  return true;
}

// The same for a feature list of any form; stops when a visitor returns false.
template <class VisitRun, class Visit>
bool walk_steps(Bytes record, Location at, Kind likely, VisitRun&& visit_run, Visit&& visit) {
  const std::size_t end = std::size_t{at.offset} + at.size;
  if (at.form == Form::missing) return true;
  if (at.form == Form::list) {
    return walk_list_steps(record, at.offset, end, likely, visit_run, visit);
  }
  if (at.form != Form::lists) return false;
  return feature_detail::walk_fields(at.of(record), feature_detail::kValueTag, [&](Bytes steps) {
    const auto from = static_cast<std::size_t>(steps.data() - record.data());
    return walk_list_steps(record, from, from + steps.size(), likely, visit_run, visit);
  });
}

// Calls `visit(step)` with the location of each step's values.
template <class Visit>
bool walk_steps(Bytes record, Location at, Kind likely, Visit&& visit) {
  const auto visit_run = [&](const StepRun& run) {
    for (std::size_t i = 0; i < run.count; ++i) {
      if (!visit(run[i])) return false;
    }
    return true;
  };
  return walk_steps(record, at, likely, visit_run, visit);
}

}  // namespace tio
