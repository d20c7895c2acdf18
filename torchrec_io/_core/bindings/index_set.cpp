// Bindings of many indexes as one: check arguments, release the GIL, call, return.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "records/index_set.h"
#include "bindings/arrays.h"
#include "bindings/parts.h"

namespace tio {
namespace {

using Numbers = Vector<std::int64_t>;

// Keeps the arrays alive whose bytes the set looks at.
struct HeldIndexSet {
  IndexSet set;
  std::vector<Buffer> held;
};

HeldIndexSet open_set(const Numbers& counts) {
  auto set = IndexSet::open(span_of(counts));
  if (!set) throw nb::value_error("there are no so many records");
  return {std::move(*set), std::vector<Buffer>(counts.size())};
}

std::size_t check_file(const IndexSet& set, std::int64_t file) {
  if (file < 0 || static_cast<std::size_t>(file) >= set.files()) {
    throw nb::index_error("there is no such file");
  }
  return static_cast<std::size_t>(file);
}

void bind_take(HeldIndexSet& self, std::int64_t file, Buffer index, std::uint64_t epoch) {
  const std::size_t at = check_file(self.set, file);
  std::string reason;
  if (!self.set.take(at, bytes_of(index), epoch, reason)) throw nb::value_error(reason.c_str());
  if (!self.held[at].is_valid()) self.held[at] = std::move(index);
}

std::vector<std::int64_t> bind_unseen(const HeldIndexSet& self,
                                      const std::vector<std::int64_t>& files, std::uint64_t epoch) {
  std::vector<std::int64_t> unseen;
  for (const std::int64_t file : files) {
    if (!self.set.is_seen(check_file(self.set, file), epoch)) unseen.push_back(file);
  }
  return unseen;
}

void check_found(const IndexSet& set, Found found) {
  if (found == Found::no_such_record) {
    throw nb::index_error(("there are " + std::to_string(set.records()) + " records").c_str());
  }
  if (found == Found::damaged) throw nb::index_error("the index entry of a record is damaged");
}

auto bind_locate(const HeldIndexSet& self, const Numbers& numbers, std::uint64_t epoch) {
  Places places;
  std::vector<std::int64_t> unseen;
  Found found{};
  {
    const nb::gil_scoped_release unlocked;
    found = self.set.locate(span_of(numbers), epoch, places, unseen);
  }
  check_found(self.set, found);
  return std::make_tuple(std::move(unseen), std::move(places.files), std::move(places.starts));
}

NumpyMatrix<std::int64_t> to_rows(const std::vector<Range>& ranges) {
  std::vector<std::int64_t> rows;
  rows.reserve(3 * ranges.size());
  for (const Range& range : ranges) {
    rows.insert(rows.end(), {range.offset, range.size, range.place});
  }
  return to_numpy_rows(std::move(rows), 3);
}

auto bind_plan(const HeldIndexSet& self, const Numbers& numbers, std::uint64_t epoch,
               std::int64_t gap) {
  if (gap < 0) throw nb::value_error("gap must be at least 0");
  ReadPlan plan;
  std::vector<std::int64_t> unseen;
  Found found{};
  {
    const nb::gil_scoped_release unlocked;
    found = self.set.plan(span_of(numbers), epoch, gap, plan, unseen);
  }
  check_found(self.set, found);
  return std::make_tuple(std::move(unseen), to_numpy(std::move(plan.sizes)),
                         to_numpy(std::move(plan.placed)), std::move(plan.files),
                         std::move(plan.cuts), to_rows(plan.ranges), plan.buffer_bytes);
}

}  // namespace

void bind_index_set(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<HeldIndexSet>(module, "IndexSet",
                           "The indexes of files whose records are numbered on from file to file.")
      .def(nb::new_(&open_set), "counts"_a, "`counts`: records of each file.")
      .def("take", &bind_take, "file"_a, "index"_a, "epoch"_a,
           "Notes that a file was looked at in an epoch; the first time, keeps its index.")
      .def("unseen", &bind_unseen, "files"_a, "epoch"_a,
           "Which of `files` were not looked at in the epoch, or a later one.")
      .def("locate", &bind_locate, "numbers"_a, "epoch"_a,
           "(unseen, files, starts): which files must be looked at first, and if none, file and\n"
           "stream offset of each record's frame.")
      .def("plan", &bind_plan, "numbers"_a, "epoch"_a, "gap"_a,
           "(unseen, sizes, placed, files, cuts, ranges, buffer_bytes): which files must be\n"
           "looked at first, and if none, the reads that fetch records into one buffer.");
}

}  // namespace tio
