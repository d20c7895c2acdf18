// Documents for packed rows: Examples with a list of tokens, located but not decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encode.h"
#include "example/located_batch.h"
#include "packing/row_writer.h"
#include "specs.h"

namespace tio::test {

// Returns the spec of a list of numbers that has no column.
inline FeatureSpec without_column(FeatureSpec spec) {
  spec.has_column = false;
  return spec;
}

// Locates the values of records, each in memory that ends where the record ends.
inline LocatedBatch located(const std::vector<std::string>& records, FeatureSpec spec) {
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (const auto& record : records) memory->push_back(exact(record));
  std::vector<Bytes> views(memory->begin(), memory->end());
  std::vector<FeatureSpec> specs{without_column(std::move(spec))};
  return {std::make_shared<const ExampleParser>(std::move(specs)),
          std::make_shared<const Records>(std::move(views), memory)};
}

// Returns a number as the bytes of a value.
template <class T>
std::vector<std::byte> item(T value) {
  const Bytes bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

// The columns of rows of int64 tokens, one after another in an arena.
struct RowArena {
  RowArena(std::size_t tokens, Labels labels, std::int64_t padding, std::int64_t separator)
      : count(tokens), memory(3 * tokens + 1) {
    format.columns = {PackedColumn{0, 0, item(padding), item(separator)}};
    format.labels = labels;
    format.separator = separator;
    format.labels_at = 8 * tokens;
    format.segments_at = 16 * tokens;
    format.positions_at = 20 * tokens;
  }

  MutableBytes bytes() { return std::as_writable_bytes(std::span(memory).first(3 * count)); }
  std::vector<std::int64_t> tokens() const { return {memory.begin(), memory.begin() + end(1)}; }
  std::vector<std::int64_t> labels() const {
    return {memory.begin() + end(1), memory.begin() + end(2)};
  }
  std::vector<std::int32_t> segments() const { return numbers(0); }
  std::vector<std::int32_t> positions() const { return numbers(count); }

  std::size_t count;
  std::vector<std::int64_t> memory;
  RowFormat format;

 private:
  std::ptrdiff_t end(std::size_t columns) const {
    return static_cast<std::ptrdiff_t>(columns * count);
  }
  std::vector<std::int32_t> numbers(std::size_t first) const {
    std::vector<std::int32_t> found(count);
    if (count == 0) return found;
    const auto* bytes = reinterpret_cast<const std::byte*>(memory.data());
    std::memcpy(found.data(), bytes + 16 * count + 4 * first, 4 * count);
    return found;
  }
};

}  // namespace tio::test
