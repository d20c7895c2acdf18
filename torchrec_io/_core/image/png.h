// The filters of PNG's rows (PNG specification, third edition, section 9).
#pragma once

#include <cstddef>

#include "wire/bytes.h"

namespace tio {

// Undoes the filters of an image's rows, in place. Each row is a byte that names its filter, and
// `row_bytes` of pixels; a pixel has `pixel_bytes`, from 1 to 8. False if the rows do not fill
// `data`, or a filter has no such name; the rows are of no use then.
bool unfilter_png(MutableBytes data, std::size_t row_bytes, std::size_t pixel_bytes);

}  // namespace tio
