#include "example/example_list.h"

#include "example/fields.h"
#include "wire/field_walk.h"

namespace tio {
namespace {

class Splitter {
 public:
  explicit Splitter(ListParts& parts) : parts_(parts) {}

  void split(std::size_t record, Bytes bytes) {
    const std::size_t examples = parts_.example_offsets.size();
    const std::size_t contexts = parts_.context_offsets.size();
    if (!walk(record, bytes)) {
      parts_.example_offsets.resize(examples);
      parts_.example_sizes.resize(examples);
      parts_.context_records.resize(contexts);
      parts_.context_offsets.resize(contexts);
      parts_.context_sizes.resize(contexts);
    }
    parts_.example_splits.push_back(static_cast<std::int64_t>(parts_.example_offsets.size()));
  }

 private:
  bool walk(std::size_t record, Bytes bytes) {
    const auto fail = [&](const std::byte* at, const char* reason) {
      const auto offset = static_cast<std::uint64_t>(at - bytes.data());
      parts_.failures.push_back({record, std::nullopt, offset, reason});
      return false;
    };
    if (bytes.size() > kMaxRecordBytes) {
      return fail(bytes.data(), "the record is larger than 2 GiB, the limit for a message");
    }
    const auto visit = [&](std::uint32_t tag, Bytes content) {
      const auto offset = static_cast<std::int64_t>(content.data() - bytes.data());
      const auto size = static_cast<std::int64_t>(content.size());
      if (tag == fields::kListExample) {
        parts_.example_offsets.push_back(offset);
        parts_.example_sizes.push_back(size);
      } else if (tag == fields::kListContext) {
        parts_.context_records.push_back(static_cast<std::int64_t>(record));
        parts_.context_offsets.push_back(offset);
        parts_.context_sizes.push_back(size);
      }
      return true;
    };
    return walk_or_fail(bytes, visit, fail);
  }

  ListParts& parts_;
};

}  // namespace

ListParts split_lists(const Records& records) {
  ListParts parts;
  parts.example_splits.reserve(records.size() + 1);
  parts.example_splits.push_back(0);
  Splitter splitter(parts);
  for (std::size_t i = 0; i < records.size(); ++i) splitter.split(i, records[i]);
  return parts;
}

}  // namespace tio
