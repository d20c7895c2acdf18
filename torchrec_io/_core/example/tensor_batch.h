// The serialized tensors of a feature, one for each record of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "example/parser.h"
#include "example/tensor_proto.h"

namespace tio {

// Shares the records, whose bytes it refers to.
class TensorBatch {
 public:
  // First pass over the values of a span feature. Collects the records whose value is not a tensor
  // of the expected type in `failures`.
  TensorBatch(const ExampleParser& parser, std::shared_ptr<const Records> records,
              const LocateResult& located, std::size_t feature, TensorType type);

  const std::vector<TensorHeader>& headers() const { return headers_; }
  const std::vector<Failure>& failures() const { return failures_; }

  // Whether every tensor lies inside the arena: its data at data[i], and for strings also its int64
  // offsets [count + 1] at offsets[i].
  bool fits(std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> data,
            MutableBytes arena) const;

  // Second pass, if the tensors fit and the first pass did not fail: writes them into the arena.
  std::vector<Failure> fill(std::span<const std::uint64_t> offsets,
                            std::span<const std::uint64_t> data, MutableBytes arena) const;

 private:
  std::shared_ptr<const Records> records_;
  std::size_t feature_;
  std::vector<Bytes> messages_;
  std::vector<TensorHeader> headers_;
  std::vector<Failure> failures_;
};

}  // namespace tio
