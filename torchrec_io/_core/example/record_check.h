// Checks that the located features of a record match the schema.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "example/feature.h"
#include "example/parser.h"
#include "example/sequence.h"

namespace tio {

// Checks the located features of one record as far as possible without decoding them.
class RecordCheck {
 public:
  explicit RecordCheck(Bytes record) : record_(record) {}

  // Returns false if the feature does not match: `reason` explains it, and `offset` locates it if
  // the feature exists. Without a reason, the record is invalid.
  bool check(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    offset = std::nullopt;
    if (at.form == Form::missing) return check_missing(spec, size);
    return spec.in_lists ? check_list(spec, at, size) : check_feature(spec, at, size);
  }

  std::string reason;
  std::optional<std::uint64_t> offset;

 private:
  static std::string plural(std::uint64_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? " value" : " values");
  }

  bool fail(Location at, std::string why) {
    offset = at.offset;
    reason = std::move(why);
    return false;
  }

  static bool may_be_missing(ColumnType type) {
    return type == ColumnType::ragged || type == ColumnType::flat || type == ColumnType::on_request;
  }

  bool check_missing(const FeatureSpec& spec, ColumnSize& size) {
    if (may_be_missing(spec.column_type)) return true;
    if (!spec.is_optional) {
      reason = "the feature is required but the record does not have it";
      return false;
    }
    if (spec.column_type == ColumnType::fixed) {
      for (const auto bytes : spec.default_sizes) size.bytes += bytes;
      size.values += spec.count;
    }
    return true;
  }

  bool check_kind(const FeatureSpec& spec, Location at) {
    const Kind wanted = stored_kind(spec.dtype);
    return at.kind == wanted || fail(at, std::string("the record holds ") + kind_name(at.kind) +
                                             " values, the schema wants " + kind_name(wanted));
  }

  bool check_feature(const FeatureSpec& spec, const Location& at, ColumnSize& size) {
    if (!check_kind(spec, at)) return false;
    if (!spec.has_column && at.form == Form::single) return true;
    ValueCount count;
    if (!count_values(record_, at, count)) return false;
    if (!check_count(spec, at, count)) return false;
    size.values += count.values;
    size.bytes += count.bytes;
    if (spec.column_type == ColumnType::padded) {
      size.longest = std::max(size.longest, count.values / spec.count);
    }
    return true;
  }

  bool check_count(const FeatureSpec& spec, const Location& at, const ValueCount& count) {
    const auto fail_count = [&](const std::string& expected) {
      return fail(at, "the record holds " + plural(count.values, kind_name(at.kind)) +
                          ", the schema wants " + expected);
    };
    switch (spec.column_type) {
      case ColumnType::fixed:
        return count.values == spec.count || fail_count(std::to_string(spec.count));
      case ColumnType::padded:
        return count.values % spec.count == 0 ||
               fail_count("a multiple of " + std::to_string(spec.count));
      case ColumnType::raw_bytes:
        if (count.values != 1) return fail_count("1");
        return count.bytes == spec.count ||
               fail(at, "its value has " + std::to_string(count.bytes) +
                            " bytes, the schema wants " + std::to_string(spec.count));
      case ColumnType::resized_bytes:
      case ColumnType::span: return count.values == 1 || fail_count("1");
      case ColumnType::ragged:
      case ColumnType::flat:
      case ColumnType::on_request: return true;
    }
    return true;
  }

  // Checks the steps of a feature list.
  bool check_list(const FeatureSpec& spec, Location list, ColumnSize& size) {
    const Kind wanted = stored_kind(spec.dtype);
    ColumnSize seen;
    bool good = true;
    const auto check_step = [&](Location step) {
      ++seen.steps;
      if (step.form != Form::missing && step.kind != wanted) return good = check_kind(spec, step);
      ValueCount count;
      if (!count_values(record_, step, count)) return false;
      seen.values += count.values;
      seen.bytes += count.bytes;
      return spec.column_type != ColumnType::padded || count.values == spec.count ||
             (good = fail_step(spec, step, seen.steps - 1, count.values));
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

  // Counts the values of a run of integer steps at once. Returns false if a step must be checked by
  // itself.
  bool count_run(const FeatureSpec& spec, const StepRun& run, ColumnSize& seen) const {
    const bool one_each = spec.column_type == ColumnType::padded && spec.count == 1;
    std::uint64_t values = one_each ? run.count : 0;  // decoding checks that it is one value
    for (std::size_t i = 0; !one_each && i < run.count; ++i) {
      std::uint64_t count = 0;
      if (run.sizes[i] == 0 || run.sizes[i] > 8) return false;
      const auto word = load<std::uint64_t>(record_, run.offsets[i]);
      if (!count_word(word, run.sizes[i], count)) return false;
      if (spec.column_type == ColumnType::padded && count != spec.count) return false;
      values += count;
    }
    seen.steps += run.count;
    seen.values += values;
    return true;
  }

  bool fail_step(const FeatureSpec& spec, Location step, std::uint64_t number,
                 std::uint64_t values) {
    return fail(step, "step " + std::to_string(number) + " holds " +
                          plural(values, kind_name(stored_kind(spec.dtype))) +
                          ", the schema wants " + std::to_string(spec.count));
  }

  Bytes record_;
};

}  // namespace tio
