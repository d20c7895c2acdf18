// Parses a batch as the Python layer does, checks what must hold for every batch, and returns the
// columns as vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "arena.h"
#include "check.h"
#include "encode.h"
#include "example/explain.h"
#include "example/parser.h"
#include "specs.h"

namespace tio::test {

// Records and their memory.
struct Batch {
  std::vector<std::vector<std::byte>> memory;
  Records records;
};

// Puts each record in memory of its own, which ends where the record ends, so that a sanitizer
// detects every read outside of it.
inline Batch apart(const std::vector<std::string>& records) {
  std::vector<std::vector<std::byte>> memory;
  for (const auto& record : records) memory.push_back(exact(record));
  std::vector<Bytes> views(memory.begin(), memory.end());
  return {std::move(memory), Records(std::move(views))};
}

// Puts all records in one buffer, in the given order, each followed by some other bytes as in the
// frames of a file.
inline Batch joined(const std::vector<std::string>& records,
                    const std::vector<std::size_t>& order) {
  std::string buffer;
  std::vector<std::int64_t> starts(records.size());
  std::vector<std::int64_t> sizes(records.size());
  for (const std::size_t i : order) {
    starts[i] = static_cast<std::int64_t>(buffer.size());
    sizes[i] = static_cast<std::int64_t>(records[i].size());
    buffer += records[i] + std::string(16, '\xff');
  }
  std::vector<std::vector<std::byte>> memory = {exact(buffer)};
  CHECK(Records::fits(memory[0], starts, sizes));
  Records views(memory[0], starts, sizes);
  return {std::move(memory), std::move(views)};
}

inline std::vector<std::size_t> order_of(std::size_t size) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

struct Parsed {
  LocateResult located;
  std::vector<Failure> failures;         // of the first pass, or if it had none, of the second
  std::vector<std::vector<Cell>> cells;  // [record][feature], if there are no failures

  bool good() const { return failures.empty(); }
};

// ---- properties of every batch ----

// Whether the values do not match the schema, in a record that may be valid.
inline bool is_about_schema(const std::string& reason) {
  for (const char* start : {"the record holds ", "the feature is required", "its value has ",
                            "a value does not fit ", "step "}) {
    if (reason.starts_with(start)) return true;
  }
  return false;
}

// The failure of an invalid record is its first fault. A record that is accepted has no fault.
inline void check_explained(const ExampleParser& parser, const Records& records,
                            const Parsed& parsed) {
  for (const Failure& failure : parsed.failures) {
    if (is_about_schema(failure.reason)) continue;
    const auto fault = explain(parser, records[failure.record]);
    if (!CHECK(fault.has_value())) continue;
    CHECK(fault->offset < records[failure.record].size());
    CHECK_EQ(failure.offset, fault->offset);
    CHECK_EQ(failure.reason, fault->reason);
    CHECK_EQ(failure.feature ? std::optional(parser.slot(*failure.feature)) : std::nullopt,
             fault->slot);
  }
  for (std::size_t i = 0; parsed.good() && i < records.size(); ++i) {
    CHECK(!explain(parser, records[i]).has_value());
  }
}

// `parse_fixed` gives the same result as both passes: the same bytes, or the same failures.
inline void check_parse_fixed(const ExampleParser& parser, const Records& records,
                              const Parsed& parsed, Arena arena, const Arena& filled) {
  std::vector<Failure> found;
  CHECK_EQ(parser.parse_fixed(records, arena.columns(), arena.bytes(), found), parser.is_fixed());
  if (!parser.is_fixed()) return;
  CHECK_EQ(found.empty(), parsed.good());
  CHECK(arena.gaps_untouched());
  if (parsed.good()) CHECK(arena == filled);
  for (const Failure& wanted : parsed.located.failures) {
    CHECK(std::ranges::any_of(found, [&](const Failure& failure) {
      return failure.record == wanted.record && failure.feature == wanted.feature &&
             failure.offset == wanted.offset && failure.reason == wanted.reason;
    }));
  }
}

// ---- parsing ----

inline Parsed parse(const ExampleParser& parser, const Batch& batch) {
  const Records& records = batch.records;
  Parsed parsed;
  parsed.located = parser.locate(records);
  parsed.failures = parsed.located.failures;
  Arena empty(parser, parsed.located);
  Arena arena = empty;
  if (parsed.good()) {
    CHECK(parser.fits(parsed.located, arena.columns(), arena.bytes()));
    parsed.failures = parser.fill(records, parsed.located, arena.columns(), arena.bytes());
    CHECK(arena.gaps_untouched());
    for (std::size_t i = 0; i < parser.specs().size(); ++i) {
      const FeatureSpec& spec = parser.specs()[i];
      if (spec.column_type != ColumnType::on_request || spec.dtype == Dtype::bytes) continue;
      const StoredInts ints = decode_ints(parser, records, parsed.located, i);
      parsed.failures.insert(parsed.failures.end(), ints.failures.begin(), ints.failures.end());
    }
  }
  check_explained(parser, records, parsed);
  if (parser.is_fixed()) check_parse_fixed(parser, records, parsed, empty, arena);
  if (!parsed.good()) return parsed;

  parsed.cells.resize(records.size());
  for (std::size_t i = 0; i < parser.specs().size(); ++i) {
    const ColumnReader column(parser, records, parsed.located, arena, i);
    for (std::size_t record = 0; record < records.size(); ++record) {
      parsed.cells[record].push_back(column.read(record));
    }
  }
  return parsed;
}

inline Parsed parse(const ExampleParser& parser, const std::string& record) {
  return parse(parser, apart({record}));
}

// ---- batches against their records alone ----

namespace batch_detail {

inline bool same_location(const Location& a, const Location& b) {
  if (a.form != b.form || a.kind != b.kind) return false;
  return a.form == Form::missing || (a.size == b.size && a.offset == b.offset);
}

inline const Failure* failure_of(const std::vector<Failure>& failures, std::size_t record) {
  const auto found = std::ranges::find(failures, record, &Failure::record);
  return found == failures.end() ? nullptr : &*found;
}

inline bool same_failure(const Failure* a, const Failure* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->feature == b->feature && a->offset == b->offset && a->reason == b->reason;
}

}  // namespace batch_detail

// Describes the difference between record `i` of a batch and the same record parsed alone. Returns
// an empty string if there is none.
inline std::string compare_record(const Parsed& together, std::size_t i, const Parsed& alone) {
  const Failure* failure = batch_detail::failure_of(together.located.failures, i);
  const Failure* wanted = batch_detail::failure_of(alone.located.failures, 0);
  if (!batch_detail::same_failure(failure, wanted)) {
    return "another failure: " + (failure ? failure->reason : "none") +
           " / alone: " + (wanted ? wanted->reason : "none");
  }
  if (wanted != nullptr) return "";  // the locations of a rejected record are undefined
  for (std::size_t slot = 0; slot < together.located.slots; ++slot) {
    if (!batch_detail::same_location(together.located.at(i, slot), alone.located.at(0, slot))) {
      return "another location of slot " + std::to_string(slot);
    }
  }
  if (!together.located.failures.empty()) return "";  // the second pass was not run
  if (!batch_detail::same_failure(batch_detail::failure_of(together.failures, i),
                                  batch_detail::failure_of(alone.failures, 0))) {
    return "another failure in the second pass";
  }
  return together.good() && together.cells[i] != alone.cells[0] ? "other values" : "";
}

// A record must give the same result in a batch and alone, although it is predicted from the record
// before it, and wherever the records lie. Returns the difference, or an empty string.
inline std::string difference_from_alone(const ExampleParser& parser,
                                         const std::vector<std::string>& records) {
  std::vector<Parsed> alone;
  for (const auto& record : records) alone.push_back(parse(parser, record));
  std::vector<std::size_t> order = order_of(records.size());
  for (const std::string where : {"apart", "in order", "reversed"}) {
    if (where == "reversed") std::ranges::reverse(order);
    const Parsed together =
        parse(parser, where == "apart" ? apart(records) : joined(records, order));
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::string difference = compare_record(together, i, alone[i]);
      if (!difference.empty()) {
        return where + ", record " + std::to_string(i) + ": " + difference;
      }
    }
  }
  return "";
}

}  // namespace tio::test
