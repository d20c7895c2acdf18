#include "example/feature_spec.h"

#include <algorithm>

namespace tio {

std::size_t element_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::int64:
    case Dtype::uint64:
    case Dtype::float64: return 8;
    case Dtype::int32:
    case Dtype::uint32:
    case Dtype::float32: return 4;
    case Dtype::int16:
    case Dtype::uint16:
    case Dtype::float16:
    case Dtype::bfloat16: return 2;
    default: return 1;
  }
}

Kind stored_kind(Dtype dtype) {
  if (dtype == Dtype::bytes) return Kind::bytes;
  return dtype < Dtype::float32 ? Kind::ints : Kind::floats;
}

const char* FeatureSpec::fault() const {
  const bool is_one_value = column_type == ColumnType::raw_bytes ||
                            column_type == ColumnType::resized_bytes ||
                            column_type == ColumnType::span;
  if (is_one_value && (dtype != Dtype::bytes || is_optional)) {
    return "raw_bytes, resized_bytes and span columns must be of required bytes features";
  }
  if (column_type == ColumnType::on_request && dtype != Dtype::int64 && dtype != Dtype::bytes) {
    return "the dtype of an on_request column must be int64 or bytes";
  }
  if (in_lists && (is_one_value || column_type == ColumnType::fixed)) {
    return "a column of a feature list must be ragged, flat, padded or on_request";
  }
  if (column_type == ColumnType::padded && count == 0) {
    return "the count of a padded column must be positive";
  }
  if (!has_column && !is_list_of_numbers()) {
    return "only a list of numbers can do without a column";
  }
  const bool has_default =
      column_type == ColumnType::padded || (column_type == ColumnType::fixed && is_optional);
  if (!has_default) return nullptr;
  const std::uint64_t values = column_type == ColumnType::padded ? 1 : count;
  if (dtype == Dtype::bytes) {
    std::uint64_t bytes = 0;
    for (const auto size : default_sizes) {
      bytes += std::min<std::uint64_t>(size, default_data.size());
    }
    if (default_sizes.size() == values && bytes == default_data.size()) return nullptr;
  } else if (default_data.size() % element_bytes(dtype) == 0 &&
             default_data.size() / element_bytes(dtype) == values) {
    return nullptr;
  }
  return "the size of the default does not match the column";
}

}  // namespace tio
