// Compares lists of examples with protobuf: the same bytes are accepted and the same parts found.
// The fault of a rejected record lies inside it, and does not affect other records.
#include <string>
#include <vector>

#include "batch.h"
#include "batch_target.h"
#include "example/example_list.h"
#include "example_list.pb.h"
#include "model.h"

namespace tio::fuzz {
namespace {

struct Expected {
  Verdict verdict = Verdict::accepted;
  Values examples;
  Values contexts;
};

Expected expect(const std::string& record) {
  torchrec_io::fuzz::ExampleList message;
  const bool legal = merge(record, kDeepest, message);
  Expected expected{legal ? Verdict::accepted : Verdict::refused, {}, {}};
  if (legal && may_hold_wide_tag(record)) expected.verdict = Verdict::either;
  expected.examples.assign(message.examples().begin(), message.examples().end());
  expected.contexts.assign(message.context().begin(), message.context().end());
  return expected;
}

std::string part(const std::string& record, std::int64_t at, std::int64_t size) {
  const auto end = static_cast<std::int64_t>(record.size());
  require(at >= 0 && size >= 0 && at <= end && size <= end - at, "a part lies outside its record");
  return record.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

// Collects the parts of each record.
std::vector<Expected> found_in(const std::vector<std::string>& records, const ListParts& parts) {
  std::vector<Expected> found(records.size());
  for (const auto& failure : parts.failures) {
    require(found.at(failure.record).verdict == Verdict::accepted, "two failures of a record");
    require(failure.offset < records[failure.record].size(), "a fault outside of its record");
    found[failure.record].verdict = Verdict::refused;
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (auto k = static_cast<std::size_t>(parts.example_splits.at(i));
         k < static_cast<std::size_t>(parts.example_splits.at(i + 1)); ++k) {
      found[i].examples.push_back(
          part(records[i], parts.example_offsets.at(k), parts.example_sizes.at(k)));
    }
  }
  for (std::size_t k = 0; k < parts.context_records.size(); ++k) {
    const auto i = static_cast<std::size_t>(parts.context_records[k]);
    found.at(i).contexts.push_back(
        part(records[i], parts.context_offsets.at(k), parts.context_sizes.at(k)));
  }
  return found;
}

}  // namespace

void run(const std::vector<std::string>& records) {
  const auto found = found_in(records, split_lists(test::apart(records).records));
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Expected expected = expect(records[i]);
    if (expected.verdict != Verdict::either) {
      require(found[i].verdict == expected.verdict, "protobuf's verdict is another");
    }
    if (found[i].verdict == Verdict::refused) {
      require(found[i].examples.empty() && found[i].contexts.empty(), "parts of a bad record");
      continue;
    }
    require(found[i].examples == expected.examples, "protobuf has other examples");
    require(found[i].contexts == expected.contexts, "protobuf has other contexts");
  }
}

}  // namespace tio::fuzz
