#include "example/example_list.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace tio {
namespace {

ListParts bind_split_lists(const Records& records) {
  const nb::gil_scoped_release unlocked;
  return split_lists(records);
}

template <auto Member>
NumpyVector<std::int64_t> parts_array(ListParts& self) {
  return view_of(self.*Member);
}

}  // namespace

void bind_example_list(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<ListParts>(m, "ListParts",
                        "Locations of the parts of some ExampleListWithContext records.\n\n"
                        "Offsets count from the start of the record.")
      .def_prop_ro("example_splits", &parts_array<&ListParts::example_splits>,
                   "Number of the first example of each record, and of all; int64 [records + 1].")
      .def_prop_ro("example_offsets", &parts_array<&ListParts::example_offsets>,
                   "Offset of each example; int64 [examples].")
      .def_prop_ro("example_sizes", &parts_array<&ListParts::example_sizes>,
                   "Bytes of each example; int64 [examples].")
      .def_prop_ro("context_records", &parts_array<&ListParts::context_records>,
                   "Record of each context, ascending; int64 [contexts].")
      .def_prop_ro("context_offsets", &parts_array<&ListParts::context_offsets>,
                   "Offset of each context; int64 [contexts].")
      .def_prop_ro("context_sizes", &parts_array<&ListParts::context_sizes>,
                   "Bytes of each context; int64 [contexts].")
      .def_ro("failures", &ListParts::failures, "Invalid records, which have no parts.");
  m.def("split_lists", &bind_split_lists, "records"_a,
        "Locate the context and the examples of ExampleListWithContext records.\n\n"
        "A record may have several contexts, which protobuf merges, or none.");
}

}  // namespace tio
