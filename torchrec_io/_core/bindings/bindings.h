// The parts of the Python module, one file each. Bindings check arguments, release the GIL, call
// the core, and return.
#pragma once

#include <nanobind/nanobind.h>

namespace tio {

void bind_encode(nanobind::module_& module);
void bind_example_list(nanobind::module_& module);
void bind_framing(nanobind::module_& module);
void bind_index(nanobind::module_& module);
void bind_loading(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_order(nanobind::module_& module);
void bind_parser(nanobind::module_& module);
void bind_png(nanobind::module_& module);
void bind_reads(nanobind::module_& module);

}  // namespace tio
