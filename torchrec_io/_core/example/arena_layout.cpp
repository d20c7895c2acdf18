#include "example/arena_layout.h"

namespace tio {
namespace {

// Returns whether `count` elements of `size` bytes at `offset` lie inside the arena, aligned.
bool is_inside(MutableBytes arena, std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  if (offset > arena.size() || offset % size != 0) return false;
  return count <= (arena.size() - offset) / size;
}

// Returns the product, or UINT64_MAX if it overflows, which fits in no arena.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool is_column_inside(const FeatureSpec& spec, const ColumnSize& size, std::uint64_t records,
                      const ColumnOffsets& column, MutableBytes arena) {
  if (!spec.has_column) return true;
  const std::uint64_t split = spec.int32_splits ? 4 : 8;
  std::uint64_t values = times(records, spec.count);
  switch (spec.column_type) {
    case ColumnType::span:
    case ColumnType::on_request: return true;
    case ColumnType::raw_bytes:
    case ColumnType::resized_bytes: return is_inside(arena, column.data, values, 1);
    case ColumnType::fixed: break;
    case ColumnType::flat: values = size.values; break;
    case ColumnType::padded:
      values = times(values, size.longest);
      if (!is_inside(arena, column.rows, records, 8)) return false;
      break;
    case ColumnType::ragged:
      values = size.values;
      if (!is_inside(arena, column.rows, records + 1, split)) return false;
      if (spec.in_lists && !is_inside(arena, column.steps, size.steps + 1, split)) return false;
      break;
  }
  if (spec.dtype != Dtype::bytes) {
    return is_inside(arena, column.data, values, element_bytes(spec.dtype));
  }
  return values != UINT64_MAX && is_inside(arena, column.values, values + 1, 8) &&
         is_inside(arena, column.data, size.bytes, 1);
}

}  // namespace

bool is_inside(std::span<const FeatureSpec> specs, std::span<const ColumnSize> sizes,
               std::uint64_t records, std::span<const ColumnOffsets> columns, MutableBytes arena) {
  if (columns.size() != specs.size() || sizes.size() != specs.size()) return false;
  if (reinterpret_cast<std::uintptr_t>(arena.data()) % 8 != 0) return false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!is_column_inside(specs[i], sizes[i], records, columns[i], arena)) return false;
  }
  return true;
}

}  // namespace tio
