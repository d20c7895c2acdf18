// What all bindings share: nanobind, with the types of the standard library that it converts, and
// the parts of the Python module, one file each. Bindings check arguments, release the GIL, call
// the core, and return.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/unlocked.h"

namespace tio {

namespace nb = nanobind;
using namespace nb::literals;

void bind_deflate(nb::module_& m);
void bind_encode(nb::module_& m);
void bind_example_list(nb::module_& m);
void bind_exit(nb::module_& m);
void bind_framing(nb::module_& m);
void bind_index(nb::module_& m);
void bind_loading(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_order(nb::module_& m);
void bind_packing(nb::module_& m);
void bind_parser(nb::module_& m);
void bind_image(nb::module_& m);
void bind_image_columns(nb::module_& m);
void bind_reads(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_step_pieces(nb::module_& m);
void bind_survey(nb::module_& m);
void bind_timing(nb::module_& m);

}  // namespace tio
