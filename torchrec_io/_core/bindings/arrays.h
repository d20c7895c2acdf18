// Arrays that are passed between Python and the core.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "records/ranges.h"
#include "wire/bytes.h"

namespace tio {

using Buffer = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WritableBuffer = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = Vector<std::int64_t>;
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

// Returns the bytes of a record.
inline Bytes bytes_of(nb::handle record) {
  if (!PyBytes_Check(record.ptr())) throw nb::type_error("a record must be bytes");
  return {reinterpret_cast<const std::byte*>(PyBytes_AsString(record.ptr())),
          static_cast<std::size_t>(PyBytes_Size(record.ptr()))};
}

template <class T>
std::span<const T> span_of(const Vector<T>& values) {
  return {values.data(), values.size()};
}

// Keeps a Python object or array alive.
template <class Held>
Owner owner_of(Held held) {
  return std::make_shared<const Held>(std::move(held));
}

// Makes an array of memory that `owner` keeps alive and that is freed with the array.
template <class T, class Object>
NumpyVector<T> to_numpy(T* data, std::size_t size, std::unique_ptr<Object> owner) {
  nb::capsule capsule(owner.release(), [](void* p) noexcept { delete static_cast<Object*>(p); });
  return NumpyVector<T>(data, {size}, capsule);
}

// Makes an array of a vector.
template <class T>
NumpyVector<T> to_numpy(std::vector<T> values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owner->data();
  const std::size_t size = owner->size();
  return to_numpy(data, size, std::move(owner));
}

// Makes the getter of a property that is an array. It shares the memory of a vector and keeps the
// object alive.
template <class Object, class T>
auto array_of(std::vector<T> Object::* member) {
  return [member](Object& self) {
    return NumpyVector<T>((self.*member).data(), {(self.*member).size()});
  };
}

// Returns an uninitialized array from the memory pool.
NumpyVector<std::uint8_t> allocate_array(std::size_t size);

// Converts rows of an array [n, 3]; see Range.
inline std::vector<Range> to_ranges(const Matrix<std::int64_t>& rows) {
  if (rows.shape(1) != 3) throw nb::value_error("ranges must have three columns");
  std::vector<Range> ranges(rows.shape(0));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t* row = rows.data() + 3 * i;
    ranges[i] = {row[0], row[1], row[2]};
    if (row[0] < 0 || row[1] < 0) throw nb::value_error("ranges must not be negative");
  }
  return ranges;
}

}  // namespace tio
