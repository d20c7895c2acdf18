// Converts Python values to the values of a Message: scalars, lists and tuples of scalars, and
// NumPy arrays and scalars. Runs no Python code, so no list changes while it is read. Lists may
// change later, so every object that a view refers to is held.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "example/encoder.h"

namespace tio {

// Returns the UTF-8 text of a str, which the str owns. Returns nothing, without an error, if the
// str is null or cannot be encoded.
inline std::optional<std::string_view> utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (data != nullptr) return std::string_view(data, static_cast<std::size_t>(size));
  PyErr_Clear();
  return std::nullopt;
}

// A C-contiguous buffer of elements in this machine's byte order.
class ArrayView {
 public:
  ArrayView(nb::handle array, bool scalar) {
    held_ = PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;
    if (!held_) PyErr_Clear();
    // Scalars without a type code, such as dates, export an array of their bytes.
    if (!scalar || view_.ndim == 0) code_ = read_code();
    if (code_ == '\0') return;
    if (std::strchr("?bBhHiIlLqQ", code_) != nullptr) kind_ = Kind::ints;
    if (std::strchr("fd", code_) != nullptr) kind_ = Kind::floats;
    if (code_ == 's') kind_ = Kind::bytes;
  }
  ~ArrayView() {
    if (held_) PyBuffer_Release(&view_);
  }
  ArrayView(const ArrayView&) = delete;
  ArrayView& operator=(const ArrayView&) = delete;

  // The kind of the values; none if the object is not such a buffer. The other members are
  // only valid if it is. Only an empty array is of bytes: bytes values need Python code.
  Kind kind() const { return kind_; }
  // The element type, as Python's struct module names it.
  char code() const { return code_; }
  bool is_signed() const { return std::strchr("bhilq", code_) != nullptr; }
  std::size_t item_bytes() const { return static_cast<std::size_t>(view_.itemsize); }
  std::size_t count() const { return static_cast<std::size_t>(view_.len) / item_bytes(); }
  std::size_t rank() const { return static_cast<std::size_t>(view_.ndim); }
  std::size_t size(std::size_t axis) const { return static_cast<std::size_t>(view_.shape[axis]); }
  std::size_t rows() const { return size(0); }
  // Elements may be unaligned.
  Bytes data() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  char read_code() const {
    if (!held_ || view_.format == nullptr || view_.itemsize == 0) return '\0';
    const std::size_t size = std::strlen(view_.format);
    const char last = size == 0 ? '\0' : view_.format[size - 1];
    if (view_.len == 0 && (last == 's' || last == 'w'))
      return 's';  // the format of text starts with its size
    return size == 1 ? last : '\0';
  }

  Py_buffer view_ = {};
  bool held_ = false;
  char code_ = '\0';
  Kind kind_ = Kind::none;
};

// The kinds of all values in a Python value.
struct Contents {
  bool ints = false;
  bool floats = false;
  bool bytes = false;
  bool unknown = false;        // of a type that Python code must convert
  bool too_deep = false;       // nested too deep to be examined completely
  Kind of_empty = Kind::none;  // the kind of an empty array

  void add(Kind kind) {
    ints |= kind == Kind::ints;
    floats |= kind == Kind::floats;
    bytes |= kind == Kind::bytes;
    unknown |= kind == Kind::none;
  }
};

// The result of converting a value.
enum class Conversion { good, unknown, too_deep, wrong_kind, out_of_range, not_text, uneven };

class ValueReader {
 public:
  // Lists nested deeper are rejected, because they may contain themselves.
  static constexpr int kMaxDepth = 64;

  ValueReader(nb::handle array_type, nb::handle scalar_type)
      : array_type_(array_type), scalar_type_(scalar_type) {}

  // The value that could not be converted; null for an array of another kind.
  const nb::object& misfit() const { return misfit_; }

  // Keeps an object alive until clear().
  void hold(nb::object object) { held_.push_back(std::move(object)); }
  void reserve(std::size_t more) { held_.reserve(held_.size() + more); }
  void clear() { held_.clear(); }

  bool is_array(nb::handle value) const {
    if (value.type().is(array_type_)) return true;
    // Classes defined in Python may export their values with Python code.
    auto* type = reinterpret_cast<PyTypeObject*>(value.type().ptr());
    return (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) == 0 &&
           PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(scalar_type_.ptr())) != 0;
  }

  // Returns the view of a value that is an array.
  ArrayView view_of(nb::handle array) const { return {array, !array.type().is(array_type_)}; }

  static bool is_list(nb::handle value) {
    return PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr());
  }

  static Py_ssize_t size_of(nb::handle list) {
    return PyList_CheckExact(list.ptr()) ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
  }

  static nb::handle item_of(nb::handle list, Py_ssize_t i) {
    PyObject* item = PyList_CheckExact(list.ptr()) ? PyList_GetItem(list.ptr(), i)
                                                   : PyTuple_GetItem(list.ptr(), i);
    if (item == nullptr) nb::raise_python_error();
    return item;
  }

  // ---- kinds ----

  // Returns the kind of the first value, or none if there is no value or its type is unknown.
  Kind first_kind(nb::handle value, int depth = 0) const {
    const Kind kind = scalar_kind(value);
    if (kind != Kind::none) return kind;
    if (is_array(value)) {
      const ArrayView array = view_of(value);
      return array.kind() == Kind::none || array.count() == 0 ? Kind::none : array.kind();
    }
    if (!is_list(value)) return Kind::none;
    if (depth == kMaxDepth) return Kind::ints;  // any kind: append() reports the depth
    for (Py_ssize_t i = 0; i < size_of(value); ++i) {
      const Kind of_item = first_kind(item_of(value, i), depth + 1);
      if (of_item != Kind::none) return of_item;
    }
    return Kind::none;
  }

  // Finds the kinds of all values in `value`. With `has_steps`, an item may be None.
  void find_kinds(nb::handle value, bool has_steps, Contents& found, int depth = 0) const {
    if (is_list(value)) {
      found.too_deep |= depth == kMaxDepth;
      for (Py_ssize_t i = 0; !found.too_deep && i < size_of(value); ++i) {
        find_kinds(item_of(value, i), has_steps, found, depth + 1);
      }
    } else if (is_array(value)) {
      const ArrayView array = view_of(value);
      if (array.kind() == Kind::none || array.count() != 0) {
        found.add(array.kind());
      } else if (found.of_empty == Kind::none) {
        found.of_empty = array.kind();
      }
    } else if (!(has_steps && depth == 1 && value.is_none())) {
      found.add(scalar_kind(value));
    }
  }

  // ---- values ----

  // Appends the values in `value`, which must be of this kind. Nested lists must have a shape:
  // their rows are not stored.
  Conversion append(nb::handle value, Kind kind, Message& to, int depth = 0) {
    const Kind own = scalar_kind(value);
    if (own != Kind::none) return append_scalar(value, own, kind, to);
    shape_.clear();
    has_rank_ = false;
    base_ = depth;
    return append_rows(value, kind, to, depth);
  }

  Conversion append_array(const ArrayView& array, Kind kind, Message& to) {
    if (array.kind() == Kind::none) return Conversion::unknown;
    if (array.count() == 0) return Conversion::good;
    if (kind == Kind::bytes || (kind == Kind::ints && array.kind() == Kind::floats)) {
      return reject({}, Conversion::wrong_kind);
    }
    switch (array.code()) {
      case '?': return append_elements<bool>(array, kind, to);
      case 'f': return append_elements<float>(array, kind, to);
      case 'd': return append_elements<double>(array, kind, to);
      default: break;
    }
    switch (array.item_bytes()) {
      case 1: return append_integers<std::int8_t>(array, kind, to);
      case 2: return append_integers<std::int16_t>(array, kind, to);
      case 4: return append_integers<std::int32_t>(array, kind, to);
      case 8: return append_integers<std::int64_t>(array, kind, to);
      default: return Conversion::unknown;
    }
  }

 private:
  // Subclasses may define their own operators, but the values are read as the base types store
  // them.
  static Kind scalar_kind(nb::handle value) {
    if (PyLong_Check(value.ptr())) return Kind::ints;
    if (PyFloat_Check(value.ptr())) return Kind::floats;
    if (PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr())) return Kind::bytes;
    return Kind::none;
  }

  Conversion reject(nb::handle value, Conversion result) {
    misfit_ = nb::borrow<nb::object>(value);
    return result;
  }

  [[gnu::always_inline]] Conversion append_scalar(nb::handle value, Kind own, Kind kind,
                                                  Message& to) {
    if (own != kind && !(own == Kind::ints && kind == Kind::floats)) {
      return reject(value, Conversion::wrong_kind);
    }
    if (kind == Kind::ints) return append_int(value, to);
    return kind == Kind::floats ? append_float(value, to) : append_bytes(value, to);
  }

  Conversion append_rows(nb::handle value, Kind kind, Message& to, int depth) {
    if (is_list(value)) return append_list(value, kind, to, depth);
    if (!is_array(value)) return Conversion::unknown;
    const ArrayView array = view_of(value);
    const Conversion result = append_array(array, kind, to);
    if (result != Conversion::good || depth == base_) return result;
    return fits_array(array, depth) ? result : reject(value, Conversion::uneven);
  }

  Conversion append_list(nb::handle list, Kind kind, Message& to, int depth) {
    if (depth == kMaxDepth) return Conversion::too_deep;
    bool is_even = depth == base_ || fits_size(static_cast<std::size_t>(size_of(list)), depth);
    Py_ssize_t scalars = append_numbers(list, kind, to);
    for (Py_ssize_t i = scalars; i < size_of(list); ++i) {
      const nb::handle item = item_of(list, i);
      const Kind own = scalar_kind(item);
      scalars += own != Kind::none;
      const Conversion result = own == Kind::none ? append_rows(item, kind, to, depth + 1)
                                                  : append_scalar(item, own, kind, to);
      if (result != Conversion::good) return result;
    }
    if (scalars != 0) is_even &= fits_rank(depth + 1);
    return is_even ? Conversion::good : reject(list, Conversion::uneven);
  }

  // ---- the shape of nested lists ----

  // Whether a list at this depth has the size of the first one there.
  bool fits_size(std::size_t size, int depth) {
    const auto axis = static_cast<std::size_t>(depth - base_ - 1);
    if (axis == shape_.size() && !has_rank_) shape_.push_back(size);
    return axis < shape_.size() && shape_[axis] == size;
  }

  // Whether scalars at this depth are as deep as the first ones.
  bool fits_rank(int depth) {
    has_rank_ = true;
    return shape_.size() == static_cast<std::size_t>(depth - base_ - 1);
  }

  bool fits_array(const ArrayView& array, int depth) {
    for (std::size_t axis = 0; axis < array.rank(); ++axis) {
      if (!fits_size(array.size(axis), depth++)) return false;
    }
    return fits_rank(depth);
  }

  Conversion append_int(nb::handle value, Message& to) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow != 0) return reject(value, Conversion::out_of_range);
    to.ints.push_back(number);
    return Conversion::good;
  }

  Conversion append_float(nb::handle value, Message& to) {
    const bool whole = PyLong_Check(value.ptr());
    const double wide = whole ? PyLong_AsDouble(value.ptr()) : PyFloat_AsDouble(value.ptr());
    const bool too_wide = whole && wide == -1 && PyErr_Occurred() != nullptr;
    if (too_wide) PyErr_Clear();
    float number = 0;
    if (too_wide || !narrow_float(wide, number)) return reject(value, Conversion::out_of_range);
    to.floats.push_back(number);
    return Conversion::good;
  }

  // Appends the first numbers of a list in a fast loop, which stops at the first item that is not
  // of this kind or does not fit. Returns their count.
  Py_ssize_t append_numbers(nb::handle list, Kind kind, Message& to) {
    if (kind == Kind::ints) {
      return append_run(list, to.ints, [](PyObject* item, std::int64_t& out) {
        int overflow = 0;
        if (!PyLong_CheckExact(item)) return false;
        out = PyLong_AsLongLongAndOverflow(item, &overflow);
        return overflow == 0;
      });
    }
    if (kind != Kind::floats) return 0;
    return append_run(list, to.floats, [](PyObject* item, float& out) {
      return PyFloat_CheckExact(item) && narrow_float(PyFloat_AsDouble(item), out);
    });
  }

  template <class Stored, class Take>
  static Py_ssize_t append_run(nb::handle list, std::vector<Stored>& stored, Take take) {
    const Py_ssize_t size = size_of(list);
    const std::size_t before = stored.size();
    stored.resize(before + static_cast<std::size_t>(size));
    Stored* out = stored.data() + before;
    const bool is_tuple = PyTuple_CheckExact(list.ptr());
    Py_ssize_t i = 0;
    for (; i < size; ++i) {
      PyObject* item =
          is_tuple ? NB_TUPLE_GET_ITEM(list.ptr(), i) : NB_LIST_GET_ITEM(list.ptr(), i);
      if (item == nullptr) nb::raise_python_error();
      if (!take(item, out[i])) break;
    }
    stored.resize(before + static_cast<std::size_t>(i));
    return i;
  }

  Conversion append_bytes(nb::handle value, Message& to) {
    if (PyBytes_Check(value.ptr())) {
      to.bytes.push_back(bytes_of(value));
    } else if (const auto text = utf8_of(value)) {
      to.bytes.push_back(std::as_bytes(std::span(*text)));
    } else {
      return reject(value, Conversion::not_text);
    }
    hold(nb::borrow<nb::object>(value));
    return Conversion::good;
  }

  template <class T>
  Conversion append_integers(const ArrayView& array, Kind kind, Message& to) {
    return array.is_signed() ? append_elements<T>(array, kind, to)
                             : append_elements<std::make_unsigned_t<T>>(array, kind, to);
  }

  template <class T>
  Conversion append_elements(const ArrayView& array, Kind kind, Message& to) {
    return kind == Kind::ints ? append_elements<T>(array, to.ints)
                              : append_elements<T>(array, to.floats);
  }

  template <class T, class Stored>
  Conversion append_elements(const ArrayView& array, std::vector<Stored>& stored) {
    const std::size_t count = array.count();
    const Bytes data = array.data();
    stored.resize(stored.size() + count);
    Stored* out = stored.data() + stored.size() - count;
    for (std::size_t i = 0; i < count; ++i) {
      // Each element is read once, because another thread may be writing.
      const T element = load_element<T>(data, i);
      if (!convert(element, out[i])) {
        return reject(nb::cast(element), Conversion::out_of_range);
      }
    }
    return Conversion::good;
  }

  template <class T>
  static T load_element(Bytes data, std::size_t i) {
    if constexpr (std::is_same_v<T, bool>) {
      return load<std::uint8_t>(data, i) != 0;  // an array's bool may be any byte
    } else {
      return load<T>(data, i * sizeof(T));
    }
  }

  template <class T>
  static bool convert(T element, std::int64_t& out) {
    out = static_cast<std::int64_t>(element);
    return !std::is_same_v<T, std::uint64_t> || out >= 0;
  }

  template <class T>
  static bool convert(T element, float& out) {
    return narrow_float(static_cast<double>(element), out);
  }

  // Unchanged, including the bits of a NaN.
  static bool convert(float element, float& out) {
    out = element;
    return true;
  }

  nb::handle array_type_;
  nb::handle scalar_type_;
  nb::object misfit_;
  // The sizes of the rows at each depth below `base_`, that of the value that is appended.
  std::vector<std::size_t> shape_;
  bool has_rank_ = false;  // whether scalars were found, so that no lists may be deeper
  int base_ = 0;
  std::vector<nb::object> held_;
};

}  // namespace tio
