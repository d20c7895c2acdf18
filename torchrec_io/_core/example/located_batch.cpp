#include "example/located_batch.h"

#include "timing/steps.h"

namespace tio {
namespace {

// Fetches and checks the frames of a batch. Returns false if one is missing or invalid.
bool fetch_frames(const BatchReads& batch, bool check_crcs) {
  if (!batch.plan) return true;
  if (batch.descriptors) {
    return read_frames(*batch.plan, *batch.descriptors, batch.buffer, check_crcs);
  }
  const StepScope step(Counter::checking);
  return check_frames(*batch.plan, batch.buffer, check_crcs);
}

}  // namespace

std::vector<LocatedBatch> load_batches(const std::shared_ptr<const ExampleParser>& parser,
                                       std::span<const BatchReads* const> batches,
                                       bool check_crcs) {
  const StepScope step(Counter::parsing);
  std::vector<LocatedBatch> result;
  for (const BatchReads* batch : batches) {
    if (!fetch_frames(*batch, check_crcs)) break;
    LocatedBatch located(parser, batch->records);
    if (located.has_failed()) break;
    result.push_back(std::move(located));
  }
  return result;
}

std::optional<FilledBatches> load_fixed_batches(const ExampleParser& parser,
                                                std::span<const BatchReads* const> batches,
                                                std::span<const BatchTarget> targets,
                                                bool check_crcs) {
  const StepScope step(Counter::parsing);
  FilledBatches filled;
  for (; filled.count < batches.size(); ++filled.count) {
    const BatchReads& batch = *batches[filled.count];
    if (!fetch_frames(batch, check_crcs)) break;
    const auto& [columns, arena] = targets[filled.count];
    if (!parser.parse_fixed(*batch.records, columns, arena, filled.failures)) return {};
    if (!filled.failures.empty()) break;
  }
  return filled;
}

FilledBatches fill_batches(std::span<const LocatedBatch* const> batches,
                           std::span<const BatchTarget> targets) {
  const StepScope step(Counter::parsing);
  FilledBatches filled;
  for (; filled.count < batches.size(); ++filled.count) {
    const auto& [columns, arena] = targets[filled.count];
    filled.failures = batches[filled.count]->fill(columns, arena);
    if (!filled.failures.empty()) break;
  }
  return filled;
}

}  // namespace tio
