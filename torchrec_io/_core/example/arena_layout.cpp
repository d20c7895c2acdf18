#include "example/arena_layout.h"

namespace tio {
namespace {

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
    case ColumnType::resized_bytes: return is_array_inside(column.data, values, 1, arena.size());
    case ColumnType::fixed: break;
    case ColumnType::flat: values = size.values; break;
    case ColumnType::padded:
      values = times(values, size.longest);
      if (!is_array_inside(column.rows, records, 8, arena.size())) return false;
      break;
    case ColumnType::ragged:
      values = size.values;
      if (!is_array_inside(column.rows, records + 1, split, arena.size())) return false;
      if (spec.in_lists && !is_array_inside(column.steps, size.steps + 1, split, arena.size())) {
        return false;
      }
      break;
  }
  if (spec.dtype != Dtype::bytes) {
    return is_array_inside(column.data, values, element_bytes(spec.dtype), arena.size());
  }
  return values != UINT64_MAX && is_array_inside(column.values, values + 1, 8, arena.size()) &&
         is_array_inside(column.data, size.bytes, 1, arena.size());
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
