#include "image/png.h"

#include "bindings/arrays.h"

namespace tio {

void bind_png(nb::module_& m) {
  m.def(
      "unfilter_png",
      [](const WritableBuffer& data, std::size_t row_bytes, std::size_t pixel_bytes) {
        return unfilter_png(writable_bytes(data), row_bytes, pixel_bytes);
      },
      Unlocked(), "data"_a, "row_bytes"_a, "pixel_bytes"_a,
      "Reverse the filters of the rows of a PNG image, in place.\n\n"
      "Args:\n"
      "    data: Rows; each has a byte that names its filter, and `row_bytes` bytes of pixels.\n"
      "    row_bytes: Bytes of the pixels of a row.\n"
      "    pixel_bytes: Bytes of a pixel, 1 to 8.\n\n"
      "Returns:\n"
      "    False if the rows do not fill `data`, or if a filter is unknown.");
}

}  // namespace tio
