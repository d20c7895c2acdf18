// The steps of a tf.train.FeatureList: where the values of each one lie.
#pragma once

#include <cstdint>

#include "example/feature.h"
#include "wire/bytes.h"

namespace tio {

// Consecutive steps in the encoding that writers use for nearly all of them: a Feature with one
// list of one chunk, and lengths of one byte. Many steps are found at a time, which keeps both the
// loop that finds them and the loop that reads their values short.
struct StepRun {
  static constexpr std::size_t kMaxSteps = 64;

  std::size_t count = 0;
  Kind kind = Kind::none;
  std::uint32_t offsets[kMaxSteps];  // of the values; eight bytes can be loaded there
  std::uint8_t sizes[kMaxSteps];

  Location operator[](std::size_t i) const { return {offsets[i], sizes[i], Form::single, kind}; }
};

namespace sequence_detail {

// Finds such steps of kind `run.kind` from offset `at` on. Returns the offset where it stopped.
std::size_t find_run(Bytes record, std::size_t at, std::size_t limit, StepRun& run);

// Reads the field of a FeatureList at offset `at` and moves `at` past it. Not every field is a
// step.
bool read_field(Bytes record, std::size_t& at, std::size_t limit, bool& is_step, Location& step);

}  // namespace sequence_detail

// Calls `visit_run(run)` or `visit(step)` for the steps of the FeatureList in [at, limit) of the
// record, in order. Steps of kind `likely` are found fastest.
template <class VisitRun, class Visit>
bool walk_list_steps(Bytes record, std::size_t at, std::size_t limit, Kind likely,
                     VisitRun&& visit_run, Visit&& visit) {
  StepRun run;
  run.kind = likely;
  while (at < limit) {
    at = sequence_detail::find_run(record, at, limit, run);
    if (run.count != 0 && !visit_run(run)) return false;
    if (at == limit || run.count == StepRun::kMaxSteps) continue;
    Location step;
    bool is_step = false;
    if (!sequence_detail::read_field(record, at, limit, is_step, step)) return false;
    if (is_step && !visit(step)) return false;
  }
  return true;
}

// Does the same for a feature list of any form. Stops when a visitor returns false.
template <class VisitRun, class Visit>
bool walk_steps(Bytes record, Location at, Kind likely, VisitRun&& visit_run, Visit&& visit) {
  const std::size_t end = std::size_t{at.offset} + at.size;
  if (at.form == Form::missing) return true;
  if (at.form == Form::list) {
    return walk_list_steps(record, at.offset, end, likely, visit_run, visit);
  }
  if (at.form != Form::lists) return false;
  return feature_detail::walk_fields(at.of(record), fields::kMapValue, [&](Bytes steps) {
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
