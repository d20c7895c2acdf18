// Several batches in one call. Threads that leave Python and return for each small step spend most
// of their time waiting for each other.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/parser.h"
#include "example/located_batch.h"

namespace tio {
namespace {

BatchReads make_reads(std::optional<std::vector<int>> descriptors,
                      std::shared_ptr<const ReadPlan> plan, WritableBuffer buffer,
                      nb::handle_t<Records> in) {
  auto records = share(in);
  const MutableBytes bytes = writable_bytes(buffer);
  if (bytes.size() < static_cast<std::size_t>(plan->buffer_bytes)) {
    throw nb::value_error("the buffer is smaller than the plan requires");
  }
  Owner owner = owner_of(std::move(buffer));
  return {std::move(descriptors), std::move(plan), bytes, std::move(owner), std::move(records)};
}

void init_reads(BatchReads* self, const Sequence<int>& descriptors, nb::handle_t<ReadPlan> of,
                WritableBuffer buffer, nb::handle_t<Records> in) {
  std::vector<int> files = Items<int>(descriptors).values();
  auto plan = share(of);
  if (files.size() != plan->files.size()) {
    throw nb::value_error("there must be one descriptor for each file of the plan");
  }
  new (self) BatchReads(make_reads(std::move(files), std::move(plan), std::move(buffer), in));
}

BatchReads reads_of_buffer(nb::handle_t<ReadPlan> of, WritableBuffer buffer,
                           nb::handle_t<Records> in) {
  return make_reads(std::nullopt, share(of), std::move(buffer), in);
}

BatchReads reads_of_records(nb::handle_t<Records> records) {
  BatchReads reads;
  reads.records = share(records);
  return reads;
}

using TargetItems = Items<const ColumnTargets*>;
using ArenaItems = Items<WritableBuffer>;

std::vector<BatchTarget> to_targets(const TargetItems& target_items, const ArenaItems& arena_items,
                                    std::size_t batches) {
  const auto& column_targets = target_items.values();
  const auto& arenas = arena_items.values();
  if (column_targets.size() != batches || arenas.size() != batches) {
    throw nb::value_error("each batch must have targets and an arena");
  }
  std::vector<BatchTarget> targets;
  for (std::size_t i = 0; i < batches; ++i) {
    targets.push_back({column_targets[i]->columns, writable_bytes(arenas[i])});
  }
  return targets;
}

void check_fits(bool fits) {
  if (!fits) throw nb::value_error("a column lies outside the arena or is not aligned");
}

std::vector<LocatedBatch> bind_load_batches(nb::handle_t<ExampleParser> parser,
                                            const Sequence<BatchReads>& reads, bool check_crcs) {
  const auto shared_parser = share(parser);
  const Items<const BatchReads*> batches(reads);
  const ReleasedGil unlocked;
  return load_batches(shared_parser, batches.values(), check_crcs);
}

using Filled = std::pair<std::size_t, std::vector<Failure>>;

Filled to_pair(FilledBatches filled) { return {filled.count, std::move(filled.failures)}; }

Filled bind_load_fixed_batches(const ExampleParser& parser, const Sequence<BatchReads>& reads,
                               const Sequence<ColumnTargets>& column_targets,
                               const Sequence<WritableBuffer>& arenas, bool check_crcs) {
  const Items<const BatchReads*> batches(reads);
  const TargetItems target_items(column_targets);
  const ArenaItems arena_items(arenas);
  const std::vector<BatchTarget> targets =
      to_targets(target_items, arena_items, batches.values().size());
  const ReleasedGil unlocked;
  auto result = load_fixed_batches(parser, batches.values(), targets, check_crcs);
  check_fits(result.has_value());
  return to_pair(std::move(*result));
}

Filled bind_fill_batches(const Sequence<LocatedBatch>& located,
                         const Sequence<ColumnTargets>& column_targets,
                         const Sequence<WritableBuffer>& arenas) {
  const Items<const LocatedBatch*> items(located);
  const auto& batches = items.values();
  const TargetItems target_items(column_targets);
  const ArenaItems arena_items(arenas);
  const std::vector<BatchTarget> targets = to_targets(target_items, arena_items, batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i]->has_failed()) throw nb::value_error("the batch has failures");
    check_fits(batches[i]->fits(targets[i].columns, targets[i].arena));
  }
  const ReleasedGil unlocked;
  return to_pair(fill_batches(batches, targets));
}

}  // namespace

void bind_loading(nb::module_& m) {
  nb::class_<BatchReads>(m, "BatchReads",
                         "The reads that fetch one batch. Keeps its buffer and records alive.")
      .def("__init__", &init_reads, "descriptors"_a, "plan"_a, "buffer"_a, "records"_a,
           "Args:\n"
           "    descriptors: Descriptor of each file of the plan, open until the batch is loaded.\n"
           "    plan: Plan of the reads.\n"
           "    buffer: Bytes that receive the frames.\n"
           "    records: Records that will be in the buffer, which are parsed.")
      .def_static("of_buffer", &reads_of_buffer, "plan"_a, "buffer"_a, "records"_a,
                  "Return reads of frames that are in the buffer already.\n\n"
                  "Args:\n"
                  "    plan: Plan of the records.\n"
                  "    buffer: Bytes with the frames.\n"
                  "    records: Records in the buffer.")
      .def_static("of_records", &reads_of_records, "records"_a,
                  "Return reads of records that are in memory already, without frames.");

  m.def("load_batches", &bind_load_batches, "parser"_a, "reads"_a, "check_crcs"_a,
        "Read, check and locate batches, up to the first that cannot be read or parsed. Return\n"
        "the located batches.\n\n"
        "Args:\n"
        "    parser: Parser of the records.\n"
        "    reads: Reads of each batch.\n"
        "    check_crcs: Whether to check the CRCs of lengths and data.");

  m.def(
      "load_fixed_batches", &bind_load_fixed_batches, "parser"_a, "reads"_a, "targets"_a,
      "arenas"_a, "check_crcs"_a,
      "Read, check and parse batches, if the parser is fixed. Stop at the first that cannot be\n"
      "read or parsed. Return the number of loaded batches, and the failures of that first one.\n\n"
      "Args:\n"
      "    parser: Parser of the records, which is fixed.\n"
      "    reads: Reads of each batch. Batches may share a buffer.\n"
      "    targets: Offsets that the columns of each batch are written to.\n"
      "    arenas: Arena of each batch.\n"
      "    check_crcs: Whether to check the CRCs of lengths and data.");
  m.def(
      "fill_batches", &bind_fill_batches, "located"_a, "targets"_a, "arenas"_a,
      "Second pass: fill the arenas of located batches, which must have no failures. Stop at the\n"
      "first that cannot be parsed, whose arena is undefined then. Return the number of filled\n"
      "batches, and the failures of that first one.");
}

}  // namespace tio
