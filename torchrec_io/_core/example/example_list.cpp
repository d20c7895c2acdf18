#include "example/example_list.h"

#include "example/example.h"
#include "wire/field_walk.h"

namespace tio {
namespace {

constexpr std::uint32_t kExamples = wire::tag(1, wire::delimited);
constexpr std::uint32_t kContext = wire::tag(2, wire::delimited);

class Splitter {
 public:
  explicit Splitter(ListParts& parts) : parts_(parts) {}

  void split(std::size_t record, Bytes bytes) {
    const std::size_t examples = parts_.example_at.size();
    const std::size_t contexts = parts_.context_at.size();
    if (!walk(record, bytes)) {
      keep(examples, parts_.example_at, parts_.example_sizes);
      keep(contexts, parts_.context_at, parts_.context_sizes);
      parts_.context_of.resize(contexts);
    }
    parts_.offsets.push_back(static_cast<std::int64_t>(parts_.example_at.size()));
  }

 private:
  bool walk(std::size_t record, Bytes bytes) {
    const auto fail = [&](const std::byte* at, const char* reason) {
      parts_.failures.push_back({record, static_cast<std::size_t>(at - bytes.data()), reason});
      return false;
    };
    if (bytes.size() > kLargestRecord)
      return fail(bytes.data(),
                  "the record is larger than 2 GiB, the most that a message may have");
    const auto visit = [&](std::uint32_t tag, Bytes content) {
      if (tag != kExamples && tag != kContext) return true;
      const auto at = static_cast<std::int64_t>(content.data() - bytes.data());
      const auto size = static_cast<std::int64_t>(content.size());
      (tag == kExamples ? parts_.example_at : parts_.context_at).push_back(at);
      (tag == kExamples ? parts_.example_sizes : parts_.context_sizes).push_back(size);
      if (tag == kContext) parts_.context_of.push_back(static_cast<std::int64_t>(record));
      return true;
    };
    return walk_or_fail(bytes, visit, fail);
  }

  static void keep(std::size_t count, std::vector<std::int64_t>& at,
                   std::vector<std::int64_t>& sizes) {
    at.resize(count);
    sizes.resize(count);
  }

  ListParts& parts_;
};

}  // namespace

ListParts split_lists(const Records& records) {
  ListParts parts;
  parts.offsets.reserve(records.size() + 1);
  parts.offsets.push_back(0);
  Splitter splitter(parts);
  for (std::size_t i = 0; i < records.size(); ++i) splitter.split(i, records[i]);
  return parts;
}

}  // namespace tio
