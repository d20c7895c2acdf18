// Arrays that cross between Python and the core.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "wire/bytes.h"

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
template <class T>
using NumpyMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

inline Bytes bytes_of(const Buffer& buffer) {
  return {reinterpret_cast<const std::byte*>(buffer.data()), buffer.size()};
}

inline MutableBytes writable_bytes(const WritableBuffer& buffer) {
  return {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()};
}

template <class T>
std::span<const T> span_of(const Vector<T>& values) {
  return {values.data(), values.size()};
}

// An array of so many dimensions that NumPy frees with the vector.
template <class Array, class T>
Array hand_over(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  nb::capsule owner(owned.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array(data, shape, owner);
}

// Hands a vector over to NumPy, which frees it.
template <class T>
NumpyVector<T> to_numpy(std::vector<T> values) {
  const std::size_t size = values.size();
  return hand_over<NumpyVector<T>>(std::move(values), {size});
}

// The same, as rows of so many values; they fill the vector.
template <class T>
NumpyMatrix<T> to_numpy_rows(std::vector<T> values, std::size_t columns) {
  const std::size_t rows = values.size() / columns;
  return hand_over<NumpyMatrix<T>>(std::move(values), {rows, columns});
}

}  // namespace tio
