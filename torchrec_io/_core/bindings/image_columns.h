// Columns of images, as Python passes them to the modules of image decoding.
#pragma once

#include <vector>

#include "bindings/arrays.h"
#include "image/image_column.h"

namespace tio {

inline void check_size(const StoredImages& images, const ImageColumn& column) {
  if (column.views.views.size() != images.files.size()) {
    throw nb::value_error("each image must have a view");
  }
}

}  // namespace tio
