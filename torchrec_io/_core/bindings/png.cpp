// Binding of PNG's filters.
#include <nanobind/nanobind.h>

#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "image/png.h"

namespace tio {
namespace {

bool bind_unfilter_png(const WritableBuffer& data, std::size_t row_bytes, std::size_t pixel_bytes) {
  const nb::gil_scoped_release unlocked;
  return unfilter_png(writable_bytes(data), row_bytes, pixel_bytes);
}

}  // namespace

void bind_png(nb::module_& module) {
  using namespace nb::literals;
  module.def("unfilter_png", &bind_unfilter_png, "data"_a, "row_bytes"_a, "pixel_bytes"_a,
             "Undoes the filters of an image's rows, in place: each row is a byte that names its\n"
             "filter, and `row_bytes` of pixels. False if they are no such rows.");
}

}  // namespace tio
