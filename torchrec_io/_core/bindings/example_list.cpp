#include "example/example_list.h"

#include "bindings/arrays.h"

namespace tio {

void bind_example_list(nb::module_& m) {
  nb::class_<ListParts>(m, "ListParts",
                        "Locations of the parts of some ExampleListWithContext records.\n\n"
                        "Offsets count from the start of the record.")
      .def_prop_ro("example_splits", array_of(&ListParts::example_splits),
                   "Number of the first example of each record, and of all; int64 [records + 1].")
      .def_prop_ro("example_offsets", array_of(&ListParts::example_offsets),
                   "Offset of each example; int64 [examples].")
      .def_prop_ro("example_sizes", array_of(&ListParts::example_sizes),
                   "Bytes of each example; int64 [examples].")
      .def_prop_ro("context_records", array_of(&ListParts::context_records),
                   "Record of each context, ascending; int64 [contexts].")
      .def_prop_ro("context_offsets", array_of(&ListParts::context_offsets),
                   "Offset of each context; int64 [contexts].")
      .def_prop_ro("context_sizes", array_of(&ListParts::context_sizes),
                   "Bytes of each context; int64 [contexts].")
      .def_ro("failures", &ListParts::failures, "Invalid records, which have no parts.");
  m.def("split_lists", &split_lists, Unlocked(), "records"_a,
        "Locate the context and the examples of ExampleListWithContext records.\n\n"
        "A record may have several contexts, which protobuf merges, or none.");
}

}  // namespace tio
