// What all bindings share: nanobind, with the types of the standard library that it converts, and
// the parts of the Python module, one file each. Bindings check arguments, release the GIL, call
// the core, and return.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace tio {

namespace nb = nanobind;
using namespace nb::literals;

// Releases the GIL during a call that needs no Python object.
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

void bind_encode(nb::module_& m);
void bind_example_list(nb::module_& m);
void bind_framing(nb::module_& m);
void bind_index(nb::module_& m);
void bind_loading(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_order(nb::module_& m);
void bind_parser(nb::module_& m);
void bind_image(nb::module_& m);
void bind_reads(nb::module_& m);
void bind_timing(nb::module_& m);

}  // namespace tio
