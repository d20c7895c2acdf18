#include "packing/row_loading.h"

#include "timing/steps.h"

namespace tio {

std::optional<std::size_t> load_rows(const std::shared_ptr<const ExampleParser>& parser,
                                     std::span<const BatchReads* const> batches,
                                     std::span<const RowsTarget> targets, bool check_crcs) {
  const StepScope step(Counter::parsing);
  std::size_t i = 0;
  for (; i < batches.size(); ++i) {
    if (!fetch_frames(*batches[i], check_crcs)) break;
    const LocatedBatch documents(parser, batches[i]->records);
    if (documents.has_failed()) break;
    const RowsTarget& target = targets[i];
    const BatchTarget& others = target.others;
    const bool is_inside = target.writer->fits(documents, *target.format, target.arena) &&
                           documents.fits(others.columns, others.arena);
    if (!is_inside) return {};
    if (!target.writer->write(documents, *target.format, target.arena)) break;
    if (!documents.fill(others.columns, others.arena).empty()) break;
  }
  return i;
}

}  // namespace tio
