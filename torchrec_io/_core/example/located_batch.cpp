#include "example/located_batch.h"

#include "timing/steps.h"

namespace tio {

bool fetch_frames(const BatchReads& batch, bool check_crcs, std::uint64_t& waits) {
  if (const auto* blocks = std::get_if<BatchBlocks>(&batch.from)) {
    return gather_checked_frames(*blocks, *batch.plan, batch.buffer, check_crcs);
  }
  if (const auto* descriptors = std::get_if<std::vector<int>>(&batch.from)) {
    return read_frames(*batch.plan, *descriptors, batch.buffer, check_crcs, waits);
  }
  const StepScope step(Counter::checking);
  return check_frames(*batch.plan, batch.buffer, check_crcs);
}

LoadResult load_batches(const std::shared_ptr<const ExampleParser>& parser,
                        const std::vector<const BatchReads*>& batches, bool check_crcs) {
  const StepScope step(Counter::parsing);
  LoadResult result;
  for (const BatchReads* batch : batches) {
    if (!fetch_frames(*batch, check_crcs, result.waits)) break;
    LocatedBatch located(parser, batch->records);
    if (located.has_failed()) break;
    result.located.push_back(std::move(located));
  }
  return result;
}

std::optional<FixedLoadResult> load_fixed_batches(const ExampleParser& parser,
                                                  std::span<const BatchReads* const> batches,
                                                  std::span<const BatchTarget> targets,
                                                  bool check_crcs) {
  const StepScope step(Counter::parsing);
  FixedLoadResult result;
  std::vector<Failure> failures;
  for (std::size_t& i = result.loaded; i < batches.size(); ++i) {
    const BatchReads& batch = *batches[i];
    if (!fetch_frames(batch, check_crcs, result.waits)) break;
    const BatchTarget& target = targets[i];
    if (!parser.parse_fixed(*batch.records, target.columns, target.arena, failures)) return {};
    if (!failures.empty()) break;
  }
  return result;
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
