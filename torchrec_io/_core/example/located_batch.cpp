#include "example/located_batch.h"

#include "timing/steps.h"

namespace tio {

bool fetch_frames(const BatchReads& batch, bool check_crcs) {
  if (batch.descriptors) {
    return read_frames(*batch.plan, *batch.descriptors, batch.buffer, check_crcs);
  }
  const StepScope step(Counter::checking);
  return check_frames(*batch.plan, batch.buffer, check_crcs);
}

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

std::optional<std::size_t> load_fixed_batches(const ExampleParser& parser,
                                              std::span<const BatchReads* const> batches,
                                              std::span<const BatchTarget> targets,
                                              bool check_crcs) {
  const StepScope step(Counter::parsing);
  std::vector<Failure> failures;
  std::size_t i = 0;
  for (; i < batches.size(); ++i) {
    const BatchReads& batch = *batches[i];
    if (!fetch_frames(batch, check_crcs)) break;
    const BatchTarget& target = targets[i];
    if (!parser.parse_fixed(*batch.records, target.columns, target.arena, failures)) return {};
    if (!failures.empty()) break;
  }
  return i;
}

std::size_t fill_batches(std::span<const LocatedBatch* const> batches,
                         std::span<const BatchTarget> targets) {
  const StepScope step(Counter::parsing);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (!batches[i]->fill(targets[i].columns, targets[i].arena).empty()) return i;
  }
  return batches.size();
}

}  // namespace tio
