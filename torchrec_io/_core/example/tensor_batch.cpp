#include "example/tensor_batch.h"

#include <string>
#include <utility>

namespace tio {
namespace {

std::uint64_t offsets_bytes(const TensorHeader& header) { return (header.count + 1) * 8; }

}  // namespace

TensorBatch::TensorBatch(const ExampleParser& parser, std::shared_ptr<const Records> records,
                         const LocateResult& located, std::size_t feature, TensorType type)
    : records_(std::move(records)),
      feature_(feature),
      messages_(records_->size()),
      headers_(records_->size()) {
  for (std::size_t record = 0; record < records_->size(); ++record) {
    const Location& at = located.at(record, parser.slot(feature));
    visit_values((*records_)[record], at, [&](Bytes value) {
      messages_[record] = value;
      return true;
    });
    std::string reason;
    if (!parse_tensor_header(messages_[record], type, headers_[record], reason)) {
      failures_.push_back({record, feature, at.offset, std::move(reason)});
    }
  }
}

bool TensorBatch::fits(std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> data,
                       MutableBytes arena) const {
  if (offsets.size() != headers_.size() || data.size() != headers_.size()) return false;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const TensorHeader& header = headers_[i];
    if (!is_array_inside(data[i], header.bytes, 1, arena.size())) return false;
    if (header.type == TensorType::string &&
        !is_array_inside(offsets[i], offsets_bytes(header), 1, arena.size())) {
      return false;
    }
  }
  return true;
}

std::vector<Failure> TensorBatch::fill(std::span<const std::uint64_t> offsets,
                                       std::span<const std::uint64_t> data,
                                       MutableBytes arena) const {
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const TensorHeader& header = headers_[i];
    const MutableBytes room = arena.subspan(data[i], header.bytes);
    std::string reason;
    const bool is_valid =
        header.type == TensorType::string
            ? fill_string_tensor(messages_[i], header,
                                 arena.subspan(offsets[i], offsets_bytes(header)), room, reason)
            : fill_tensor(messages_[i], header, room, reason);
    if (!is_valid) failures.push_back({i, feature_, std::nullopt, std::move(reason)});
  }
  return failures;
}

}  // namespace tio
