// Bindings of lists of examples: check arguments, release the GIL, call, return.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "example/example_list.h"
#include "bindings/arrays.h"
#include "bindings/parts.h"

namespace tio {
namespace {

auto bind_split_lists(const Records& records) {
  ListParts parts;
  {
    const nb::gil_scoped_release unlocked;
    parts = split_lists(records);
  }
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> failures;
  for (const auto& f : parts.failures) failures.emplace_back(f.record, f.offset, f.reason);
  return std::make_tuple(
      to_numpy(std::move(parts.offsets)), to_numpy(std::move(parts.example_at)),
      to_numpy(std::move(parts.example_sizes)), to_numpy(std::move(parts.context_of)),
      to_numpy(std::move(parts.context_at)), to_numpy(std::move(parts.context_sizes)), failures);
}

}  // namespace

void bind_example_list(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "split_lists", &bind_split_lists, "records"_a,
      "The parts of records that are ExampleListWithContext: (which examples each record\n"
      "has: [records + 1], where each example lies in its record, and its size; the record\n"
      "of each context, where in it, and its size; (record, byte, reason) of damaged ones).");
}

}  // namespace tio
