// Bindings that read and parse several batches in a call: what it costs to leave Python and to come
// back is paid once for all of them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "example/example.h"
#include "records/frame_reads.h"
#include "bindings/arrays.h"
#include "bindings/example.h"
#include "bindings/parts.h"
#include "bindings/ranges.h"

namespace tio {
namespace {

using Numbers = Vector<std::int64_t>;

// Descriptors, cuts and ranges as read_ranges takes them; where the frames are then, the bytes of
// their data; the buffer, and the records in it.
using ReadArgs = std::tuple<std::vector<int>, std::vector<std::int64_t>, Matrix<std::int64_t>,
                            Numbers, Numbers, WritableBuffer, const Records*>;

// The reads of a batch, checked as far as `read_sound_frames` relies on it.
class BatchReads {
 public:
  explicit BatchReads(const ReadArgs& args)
      : records_(std::get<6>(args)), ranges_(to_ranges(std::get<2>(args))) {
    const auto& [fds, cuts, rows, placed, lengths, buffer, records] = args;
    check_cuts(cuts, fds.size(), ranges_.size());
    check_places(ranges_, writable_bytes(buffer));
    if (placed.size() != lengths.size() || placed.size() != records->size()) {
      throw nb::value_error("places, lengths and records differ in size");
    }
    reads_ = {fds, cuts, ranges_, span_of(placed), span_of(lengths), writable_bytes(buffer)};
  }
  BatchReads(BatchReads&&) = default;  // what a vector holds stays where it is

  const FrameReads& reads() const { return reads_; }
  const Records& records() const { return *records_; }

 private:
  const Records* records_;
  std::vector<Range> ranges_;
  FrameReads reads_;
};

std::vector<BatchReads> to_reads(const std::vector<ReadArgs>& args) {
  std::vector<BatchReads> batches;
  batches.reserve(args.size());
  for (const ReadArgs& batch : args) batches.emplace_back(batch);
  return batches;
}

// Where columns go, and the arena.
using FillArgs = std::tuple<Matrix<std::uint64_t>, WritableBuffer>;

struct Target {
  std::vector<ColumnPlace> places;
  MutableBytes arena;
};

std::vector<Target> to_targets(const std::vector<FillArgs>& args) {
  std::vector<Target> targets;
  for (const auto& [places, arena] : args) {
    targets.push_back({to_places(places), writable_bytes(arena)});
  }
  return targets;
}

auto bind_load(const ExampleParser& parser, const std::vector<ReadArgs>& args, bool check_data) {
  const std::vector<BatchReads> batches = to_reads(args);
  std::vector<LocatedRecords> located;
  std::uint64_t waits = 0;
  {
    const nb::gil_scoped_release unlocked;
    for (const BatchReads& batch : batches) {
      if (!read_sound_frames(batch.reads(), check_data, waits)) break;
      located.push_back({&batch.records(), parser.locate(batch.records())});
      if (!located.back().located.failures.empty()) break;
    }
  }
  if (!located.empty() && !located.back().located.failures.empty()) located.pop_back();
  return std::make_tuple(std::move(located), waits);
}

auto bind_load_fixed(const ExampleParser& parser, const std::vector<ReadArgs>& args,
                     const std::vector<FillArgs>& fill_args, bool check_data) {
  const std::vector<BatchReads> batches = to_reads(args);
  const std::vector<Target> targets = to_targets(fill_args);
  if (targets.size() != batches.size()) throw nb::value_error("each batch must have an arena");
  std::size_t done = 0;
  std::uint64_t waits = 0;
  bool fits = true;
  {
    const nb::gil_scoped_release unlocked;
    std::vector<Failure> failures;
    for (const BatchReads& batch : batches) {
      const Target& target = targets[done];
      if (!read_sound_frames(batch.reads(), check_data, waits)) break;
      fits = parser.parse_fixed(batch.records(), target.places, target.arena, failures);
      if (!fits || !failures.empty()) break;
      ++done;
    }
  }
  if (!fits) throw nb::value_error(kBadPlaces);
  return std::make_tuple(done, waits);
}

std::size_t bind_fill_run(const ExampleParser& parser,
                          const std::vector<const LocatedRecords*>& located,
                          const std::vector<FillArgs>& fill_args) {
  const std::vector<Target> targets = to_targets(fill_args);
  if (targets.size() != located.size()) throw nb::value_error("each batch must have an arena");
  for (std::size_t i = 0; i < located.size(); ++i) {
    const Located& batch = located[i]->located;
    if (batch.slots != parser.slots()) throw nb::value_error("located by another parser");
    if (!batch.failures.empty()) throw nb::value_error("the batch has failures");
    if (!parser.places_fit(batch, targets[i].places, targets[i].arena)) {
      throw nb::value_error(kBadPlaces);
    }
  }
  const nb::gil_scoped_release unlocked;
  for (std::size_t done = 0; done < located.size(); ++done) {
    const auto& [records, batch] = *located[done];
    if (!parser.fill(*records, batch, targets[done].places, targets[done].arena).empty()) {
      return done;
    }
  }
  return located.size();
}

}  // namespace

void bind_runs(nb::module_& module) {
  using namespace nb::literals;
  module.def("load", &bind_load, "parser"_a, "batches"_a, "check_data"_a,
             "Reads, checks and locates batches, up to the first in which anything is wrong.\n\n"
             "Each is (fds, cuts, ranges, placed, lengths, buffer, records): the first three as\n"
             "read_ranges takes them, then where each frame will start in the buffer, the bytes\n"
             "of its data, and the records in that buffer, which must be kept. Returns what was\n"
             "located, and how often the thread had to wait.");
  module.def("load_fixed", &bind_load_fixed, "parser"_a, "batches"_a, "targets"_a, "check_data"_a,
             "The same where the parser is fixed, and parses each batch into its target (places,\n"
             "arena). Batches may share a buffer. Returns how many went well, and the waits.");
  module.def("fill_run", &bind_fill_run, "parser"_a, "located"_a, "targets"_a,
             "Fills the targets (places, arena) of located batches; returns how many went well.");
}

}  // namespace tio
