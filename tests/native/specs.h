// Short functions that make specs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "example/parser.h"

namespace tio::test {

// Values as bytes: an element in the format of the column, or a bytes value.
using Values = std::vector<std::string>;

inline FeatureSpec fixed(std::string key, Dtype dtype, std::uint64_t count = 1) {
  FeatureSpec spec;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.count = count;
  return spec;
}

inline FeatureSpec ragged(std::string key, Dtype dtype) {
  FeatureSpec spec = fixed(std::move(key), dtype);
  spec.column_type = ColumnType::ragged;
  return spec;
}

inline FeatureSpec flat(std::string key, Dtype dtype) {
  FeatureSpec spec = fixed(std::move(key), dtype);
  spec.column_type = ColumnType::flat;
  return spec;
}

inline FeatureSpec on_request(std::string key, Dtype dtype = Dtype::int64) {
  FeatureSpec spec = fixed(std::move(key), dtype);
  spec.column_type = ColumnType::on_request;
  return spec;
}

// A column of type raw_bytes, resized_bytes or span.
inline FeatureSpec one_bytes(std::string key, ColumnType type, std::uint64_t count = 1) {
  FeatureSpec spec = fixed(std::move(key), Dtype::bytes, count);
  spec.column_type = type;
  return spec;
}

inline FeatureSpec with_values(FeatureSpec spec, const Values& values) {
  for (const auto& value : values) {
    const auto bytes = std::as_bytes(std::span(value));
    spec.default_data.insert(spec.default_data.end(), bytes.begin(), bytes.end());
    if (spec.dtype == Dtype::bytes) spec.default_sizes.push_back(value.size());
  }
  return spec;
}

inline FeatureSpec optional(FeatureSpec spec) {
  spec.is_optional = true;
  return spec;
}

inline FeatureSpec with_default(FeatureSpec spec, const Values& values) {
  return optional(with_values(std::move(spec), values));
}

// Parts of `count` values. Records with fewer parts are padded with `fill`, or with zeros.
inline FeatureSpec padded(std::string key, Dtype dtype, std::uint64_t count = 1,
                          std::string fill = "") {
  if (dtype != Dtype::bytes) fill.resize(element_bytes(dtype));
  FeatureSpec spec = with_values(fixed(std::move(key), dtype, count), {std::move(fill)});
  spec.column_type = ColumnType::padded;
  return spec;
}

inline FeatureSpec in_lists(FeatureSpec spec) {
  spec.in_lists = true;
  return spec;
}

inline FeatureSpec with_int32_splits(FeatureSpec spec) {
  spec.int32_splits = true;
  return spec;
}

}  // namespace tio::test
