// The row filters of PNG images (PNG specification, third edition, section 9).
#pragma once

#include <cstddef>

#include "wire/bytes.h"

namespace tio {

// Reverses the filters of the rows of an image, in place. Each row has a byte that names its
// filter, and `row_bytes` bytes of pixels of `pixel_bytes` each, 1 to 8. Returns false if the rows
// do not fill `data`, or if a filter is unknown. The content of the rows is undefined then.
bool unfilter_png(MutableBytes data, std::size_t row_bytes, std::size_t pixel_bytes);

}  // namespace tio
