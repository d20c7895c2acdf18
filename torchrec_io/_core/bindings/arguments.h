// Arguments that take memory. nanobind's own conversions to vectors and shared pointers end the
// process if there is none; these throw std::bad_alloc.
#pragma once

#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/bindings.h"

namespace tio {

template <class T>
using Sequence = nb::typed<nb::sequence, T>;

// The items of a sequence, in C++. Pointers are never null, and remain valid without the GIL.
template <class T>
class Items {
 public:
  // A tuple, because another thread may change the sequence while the GIL is released.
  explicit Items(const nb::sequence& items) : held_(items) {
    values_.reserve(held_.size());
    for (const nb::handle item : held_) {
      T value{};
      bool is_valid = nb::try_cast(item, value);
      if constexpr (std::is_pointer_v<T>) is_valid = is_valid && value != nullptr;  // of None
      if (!is_valid) throw nb::type_error("an item of a sequence has the wrong type");
      values_.push_back(std::move(value));
    }
  }

  const std::vector<T>& values() const& { return values_; }
  std::vector<T> values() &&
    requires(!std::is_pointer_v<T>)
  {
    return std::move(values_);
  }

 private:
  nb::tuple held_;
  std::vector<T> values_;
};

// Returns copies of the objects in a sequence.
template <class T>
std::vector<T> copy_items(const nb::sequence& items) {
  const Items<const T*> pointers(items);
  std::vector<T> copies;
  copies.reserve(pointers.values().size());
  for (const T* item : pointers.values()) copies.push_back(*item);
  return copies;
}

// Returns a pointer to a Python object's value that keeps the object alive.
template <class T>
std::shared_ptr<const T> share(nb::handle_t<T> object) {
  return {nb::cast<T*>(object), nb::detail::py_deleter{object.inc_ref().ptr()}};
}

// Returns pointers to the objects in a sequence that keep them alive.
template <class T>
std::vector<std::shared_ptr<const T>> share_items(const nb::sequence& items) {
  const Items<nb::handle_t<T>> handles(items);
  std::vector<std::shared_ptr<const T>> shared;
  shared.reserve(handles.values().size());
  for (const nb::handle_t<T>& item : handles.values()) shared.push_back(share(item));
  return shared;
}

}  // namespace tio
