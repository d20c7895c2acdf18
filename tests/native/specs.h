// Short names for the specs that tests parse with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "example/example.h"

namespace tio::test {

// Values as their bytes: an element as the column stores it, or a bytes value.
using Values = std::vector<std::string>;

inline FeatureSpec fixed(std::string key, Element element, std::uint64_t count = 1) {
  FeatureSpec spec;
  spec.key = std::move(key);
  spec.element = element;
  spec.count = count;
  return spec;
}

inline FeatureSpec ragged(std::string key, Element element) {
  FeatureSpec spec = fixed(std::move(key), element);
  spec.shape = Shape::ragged;
  return spec;
}

inline FeatureSpec flat(std::string key, Element element) {
  FeatureSpec spec = fixed(std::move(key), element);
  spec.shape = Shape::flat;
  return spec;
}

inline FeatureSpec aside(std::string key, Element element = Element::int64) {
  FeatureSpec spec = fixed(std::move(key), element);
  spec.shape = Shape::aside;
  return spec;
}

// Of shape raw, resized or span.
inline FeatureSpec one_bytes(std::string key, Shape shape, std::uint64_t count = 1) {
  FeatureSpec spec = fixed(std::move(key), Element::bytes, count);
  spec.shape = shape;
  return spec;
}

inline FeatureSpec with_values(FeatureSpec spec, const Values& values) {
  for (const auto& value : values) {
    const auto bytes = std::as_bytes(std::span(value));
    spec.default_data.insert(spec.default_data.end(), bytes.begin(), bytes.end());
    if (spec.element == Element::bytes) spec.default_sizes.push_back(value.size());
  }
  return spec;
}

inline FeatureSpec optional(FeatureSpec spec) {
  spec.optional = true;
  return spec;
}

inline FeatureSpec with_default(FeatureSpec spec, const Values& values) {
  return optional(with_values(std::move(spec), values));
}

// Parts of `count` values; short records are filled up with `fill`, or with zeros.
inline FeatureSpec padded(std::string key, Element element, std::uint64_t count = 1,
                          std::string fill = "") {
  if (element != Element::bytes) fill.resize(element_bytes(element));
  FeatureSpec spec = with_values(fixed(std::move(key), element, count), {std::move(fill)});
  spec.shape = Shape::padded;
  return spec;
}

inline FeatureSpec in_lists(FeatureSpec spec) {
  spec.in_lists = true;
  return spec;
}

inline FeatureSpec narrow(FeatureSpec spec) {
  spec.narrow_splits = true;
  return spec;
}

}  // namespace tio::test
