// Bindings that have a file of their own, which module.cpp adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace tio {

void bind_encode(nanobind::module_& module);
void bind_example(nanobind::module_& module);
void bind_example_list(nanobind::module_& module);
void bind_index_set(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_png(nanobind::module_& module);
void bind_ranges(nanobind::module_& module);
void bind_runs(nanobind::module_& module);
void bind_subset(nanobind::module_& module);

}  // namespace tio
