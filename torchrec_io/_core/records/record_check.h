// Whether the features located in a record are what a parser asks for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "example/example.h"
#include "example/feature.h"
#include "example/sequence.h"

namespace tio {

// Judges the located features of one record, as far as shows without decoding them.
class RecordCheck {
 public:
  explicit RecordCheck(Bytes record) : record_(record) {}

  // False: `reason` says what is wrong, `offset` where, if it is anywhere. Without a reason, the
  // record is not legal.
  bool check(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    offset = -1;
    if (at.form == Form::missing) return check_missing(spec, size);
    return spec.in_lists ? check_list(spec, at, size) : check_feature(spec, at, size);
  }

  std::string reason;
  std::int64_t offset = -1;

 private:
  static std::string plural(std::uint64_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? " value" : " values");
  }

  bool fail(Location at, std::string why) {
    offset = at.offset;
    reason = std::move(why);
    return false;
  }

  static bool may_be_missing(Shape shape) {
    return shape == Shape::ragged || shape == Shape::flat || shape == Shape::aside;
  }

  bool check_missing(const FeatureSpec& spec, ColumnSize& size) {
    if (may_be_missing(spec.shape)) return true;
    if (!spec.optional) {
      reason = "the feature is required but the record does not have it";
      return false;
    }
    if (spec.shape == Shape::fixed) {
      for (const auto bytes : spec.default_sizes) size.bytes += bytes;
      size.values += spec.count;
    }
    return true;
  }

  bool check_kind(const FeatureSpec& spec, Location at) {
    const Kind wanted = stored_kind(spec.element);
    return at.kind == wanted || fail(at, std::string("the record holds ") + kind_name(at.kind) +
                                             " values, the schema wants " + kind_name(wanted));
  }

  bool check_feature(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    if (!check_kind(spec, at)) return false;
    ValueCount count;
    if (!count_values(record_, at, count)) return false;
    if (!check_count(spec, at, count)) return false;
    size.values += count.values;
    size.bytes += count.bytes;
    if (spec.shape == Shape::padded) {
      size.longest = std::max(size.longest, count.values / spec.count);
    }
    return true;
  }

  bool check_count(const FeatureSpec& spec, const Location& at, const ValueCount& count) {
    const auto wants = [&](const std::string& what) {
      return fail(at, "the record holds " + plural(count.values, kind_name(at.kind)) +
                          ", the schema wants " + what);
    };
    switch (spec.shape) {
      case Shape::fixed: return count.values == spec.count || wants(std::to_string(spec.count));
      case Shape::padded:
        return count.values % spec.count == 0 ||
               wants("a multiple of " + std::to_string(spec.count));
      case Shape::raw:
        if (count.values != 1) return wants("1");
        return count.bytes == spec.count ||
               fail(at, "its value has " + std::to_string(count.bytes) +
                            " bytes, the schema wants " + std::to_string(spec.count));
      case Shape::resized:
      case Shape::span: return count.values == 1 || wants("1");
      case Shape::ragged:
      case Shape::flat:
      case Shape::aside: return true;
    }
    return true;
  }

  bool check_list(const FeatureSpec& spec, Location list, ColumnSize& size) {
    const Kind wanted = stored_kind(spec.element);
    ColumnSize seen;
    bool good = true;
    const auto check_step = [&](Location step) {
      ++seen.steps;
      if (step.form != Form::missing && step.kind != wanted) return good = check_kind(spec, step);
      ValueCount count;
      if (!count_values(record_, step, count)) return false;
      seen.values += count.values;
      seen.bytes += count.bytes;
      return spec.shape != Shape::padded || count.values == spec.count ||
             (good = wrong_step(spec, step, seen.steps - 1, count.values));
    };
    const auto check_run = [&](const StepRun& run) {
      if (wanted == Kind::ints && count_run(spec, run, seen)) return true;
      for (std::size_t i = 0; i < run.count; ++i) {
        if (!check_step(run[i])) return false;
      }
      return true;
    };
    const bool legal = walk_steps(record_, list, wanted, check_run, check_step);
    if (!good || !legal) return false;
    size.values += seen.values;
    size.bytes += seen.bytes;
    size.steps += seen.steps;
    size.longest = std::max(size.longest, seen.steps);
    return true;
  }

  // Counts steps of integers that are as they should be; false if they have to be looked at.
  bool count_run(const FeatureSpec& spec, const StepRun& run, ColumnSize& seen) const {
    const bool one_each = spec.shape == Shape::padded && spec.count == 1;
    std::uint64_t values = one_each ? run.count : 0;  // decoding sees whether it is just one
    for (std::size_t i = 0; !one_each && i < run.count; ++i) {
      std::uint64_t count = 0;
      if (run.sizes[i] == 0 || run.sizes[i] > 8) return false;
      const auto word = load<std::uint64_t>(record_, run.offsets[i]);
      if (!count_word(word, run.sizes[i], count)) return false;
      if (spec.shape == Shape::padded && count != spec.count) return false;
      values += count;
    }
    seen.steps += run.count;
    seen.values += values;
    return true;
  }

  bool wrong_step(const FeatureSpec& spec, Location step, std::uint64_t number,
                  std::uint64_t values) {
    return fail(step, "step " + std::to_string(number) + " holds " +
                          plural(values, kind_name(stored_kind(spec.element))) +
                          ", the schema wants " + std::to_string(spec.count));
  }

  Bytes record_;
};

}  // namespace tio
