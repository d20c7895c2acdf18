// Arrays that cross between Python and the core.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bytes.h"

namespace tio {

namespace nb = nanobind;

using Buffer = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WritableBuffer = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

inline Bytes bytes_of(const Buffer& buffer) {
  return {reinterpret_cast<const std::byte*>(buffer.data()), buffer.size()};
}

template <class T>
std::span<const T> span_of(const Vector<T>& values) {
  return {values.data(), values.size()};
}

// Hands a vector over to NumPy, which frees it.
template <class T>
NumpyVector<T> to_numpy(std::vector<T> values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const std::size_t size = owned->size();
  nb::capsule owner(owned.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return NumpyVector<T>(data, {size}, owner);
}

}  // namespace tio
