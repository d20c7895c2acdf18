#include "example/located_batch.h"

namespace tio {

std::vector<LocatedBatch> load_batches(const std::shared_ptr<const ExampleParser>& parser,
                                       std::span<const BatchReads* const> batches, bool check_data,
                                       std::uint64_t& waits) {
  std::vector<LocatedBatch> loaded;
  for (const BatchReads* batch : batches) {
    if (!read_frames(*batch->plan, batch->descriptors, batch->buffer, check_data, waits)) break;
    LocatedBatch located(parser, batch->records);
    if (located.has_failed()) break;
    loaded.push_back(std::move(located));
  }
  return loaded;
}

std::size_t load_fixed_batches(const ExampleParser& parser,
                               std::span<const BatchReads* const> batches,
                               std::span<const BatchTarget> targets, bool check_data,
                               std::uint64_t& waits, bool& fits) {
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const BatchReads& batch = *batches[i];
    if (!read_frames(*batch.plan, batch.descriptors, batch.buffer, check_data, waits)) return i;
    fits = parser.parse_fixed(*batch.records, targets[i].columns, targets[i].arena, failures);
    if (!fits || !failures.empty()) return i;
  }
  return batches.size();
}

std::size_t fill_batches(std::span<const LocatedBatch* const> batches,
                         std::span<const BatchTarget> targets) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (!batches[i]->fill(targets[i].columns, targets[i].arena).empty()) return i;
  }
  return batches.size();
}

}  // namespace tio
