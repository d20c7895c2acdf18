// Bindings of the parser: check arguments, release the GIL, call, return.
#include "bindings/example.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "example/example.h"
#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "example/tensor_proto.h"

namespace tio {
namespace {

using FailureTuple = std::tuple<std::size_t, int, std::int64_t, std::string>;

std::vector<FailureTuple> to_tuples(const std::vector<Failure>& failures) {
  std::vector<FailureTuple> tuples;
  for (const auto& f : failures) tuples.emplace_back(f.record, f.feature, f.offset, f.reason);
  return tuples;
}

Records records_of_buffer(const Buffer& buffer, const Vector<std::int64_t>& starts,
                          const Vector<std::int64_t>& sizes) {
  if (!Records::fits(bytes_of(buffer), span_of(starts), span_of(sizes))) {
    throw nb::value_error("a record lies outside the buffer");
  }
  return Records(bytes_of(buffer), span_of(starts), span_of(sizes));
}

// A tuple cannot change, nor can bytes.
Records records_of_tuple(const nb::tuple& items) {
  std::vector<Bytes> views;
  views.reserve(items.size());
  for (const nb::handle item : items) {
    if (!PyBytes_Check(item.ptr())) throw nb::type_error("records must be bytes");
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(item.ptr(), &data, &size) != 0) throw nb::python_error();
    views.emplace_back(reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(size));
  }
  return Records(std::move(views));
}

void init_spec(FeatureSpec* self, const nb::bytes& key, bool in_lists, int element, int shape,
               std::uint64_t count, bool optional, bool narrow_splits,
               const nb::bytes& default_data, const std::vector<std::uint64_t>& default_sizes) {
  if (element < 0 || element > static_cast<int>(Element::bytes)) {
    throw nb::value_error("no such element type");
  }
  if (shape < 0 || shape > static_cast<int>(Shape::aside)) throw nb::value_error("no such shape");
  FeatureSpec spec;
  spec.key.assign(key.c_str(), key.size());
  spec.in_lists = in_lists;
  spec.element = static_cast<Element>(element);
  spec.shape = static_cast<Shape>(shape);
  spec.count = count;
  spec.optional = optional;
  spec.narrow_splits = narrow_splits;
  spec.default_sizes = default_sizes;
  const auto* data = static_cast<const std::byte*>(default_data.data());
  spec.default_data.assign(data, data + default_data.size());
  if (const char* fault = spec.fault()) throw nb::value_error(fault);
  new (self) FeatureSpec(std::move(spec));
}

void init_parser(ExampleParser* self, std::vector<FeatureSpec> specs, bool sequences) {
  new (self) ExampleParser(std::move(specs), sequences);
}

LocatedRecords bind_locate(const ExampleParser& self, const Records& records) {
  const nb::gil_scoped_release unlocked;
  return {&records, self.locate(records)};
}

std::vector<FailureTuple> bind_fill(const ExampleParser& self, const LocatedRecords& batch,
                                    const Matrix<std::uint64_t>& places,
                                    const WritableBuffer& arena) {
  if (!batch.located.failures.empty()) throw nb::value_error("the batch has failures");
  if (batch.located.slots != self.slots()) throw nb::value_error("located by another parser");
  const std::vector<ColumnPlace> columns = to_places(places);
  if (!self.places_fit(batch.located, columns, writable_bytes(arena))) {
    throw nb::value_error(kBadPlaces);
  }
  std::vector<Failure> failures;
  {
    const nb::gil_scoped_release unlocked;
    failures = self.fill(*batch.records, batch.located, columns, writable_bytes(arena));
  }
  return to_tuples(failures);
}

std::vector<FailureTuple> bind_parse_fixed(const ExampleParser& self, const Records& records,
                                           const Matrix<std::uint64_t>& places,
                                           const WritableBuffer& arena) {
  const std::vector<ColumnPlace> columns = to_places(places);
  std::vector<Failure> failures;
  bool fits = false;
  {
    const nb::gil_scoped_release unlocked;
    fits = self.parse_fixed(records, columns, writable_bytes(arena), failures);
  }
  if (!fits) throw nb::value_error(kBadPlaces);
  return to_tuples(failures);
}

NumpyVector<std::int64_t> located_sizes(const LocatedRecords& self) {
  std::vector<std::int64_t> sizes;
  for (const ColumnSize& size : self.located.sizes) {
    for (const std::uint64_t number : {size.values, size.bytes, size.steps, size.longest}) {
      sizes.push_back(static_cast<std::int64_t>(number));
    }
  }
  return to_numpy(std::move(sizes));
}

void check_feature(const ExampleParser& self, const LocatedRecords& batch, std::size_t feature) {
  if (batch.located.slots != self.slots()) throw nb::value_error("located by another parser");
  if (feature >= self.specs().size()) throw nb::index_error("no such feature");
}

auto bind_spans(const ExampleParser& self, const LocatedRecords& batch, std::size_t feature) {
  check_feature(self, batch, feature);
  if (self.specs()[feature].element != Element::bytes) throw nb::value_error("not of bytes");
  Spans found;
  {
    const nb::gil_scoped_release unlocked;
    found = self.spans(*batch.records, batch.located, feature);
  }
  return std::make_tuple(to_numpy(std::move(found.offsets)), to_numpy(std::move(found.sizes)),
                         to_numpy(std::move(found.starts)), to_numpy(std::move(found.rows)));
}

void bind_copy_parts(const Records& records, const Vector<std::int64_t>& which,
                     const Vector<std::int64_t>& offsets, std::size_t size,
                     const WritableBuffer& out) {
  bool good = false;
  {
    const nb::gil_scoped_release unlocked;
    good = records.copy_parts(span_of(which), span_of(offsets), size, writable_bytes(out));
  }
  if (!good) throw nb::value_error("a part lies outside its record, or the buffer is of no size");
}

auto bind_counts(const ExampleParser& self, const LocatedRecords& batch, std::size_t feature) {
  check_feature(self, batch, feature);
  Integers found;
  {
    const nb::gil_scoped_release unlocked;
    found = self.counts(*batch.records, batch.located, feature);
  }
  return std::make_tuple(to_numpy(std::move(found.offsets)), to_numpy(std::move(found.rows)));
}

auto bind_integers(const ExampleParser& self, const LocatedRecords& batch, std::size_t feature) {
  check_feature(self, batch, feature);
  std::vector<Failure> failures;
  Integers found;
  {
    const nb::gil_scoped_release unlocked;
    found = self.integers(*batch.records, batch.located, feature, failures);
  }
  return std::make_tuple(to_numpy(std::move(found.values)), to_numpy(std::move(found.offsets)),
                         to_numpy(std::move(found.rows)), to_tuples(failures));
}

// ---- serialized tensors ----

// The tensors that a span feature's values are.
struct Tensors {
  std::vector<Bytes> messages;
  std::vector<TensorHeader> headers;
  std::vector<Failure> failures;
};

Tensors bind_tensors(const ExampleParser& self, const LocatedRecords& batch, std::size_t feature,
                     int type) {
  check_feature(self, batch, feature);
  const nb::gil_scoped_release unlocked;
  Tensors tensors;
  tensors.messages.resize(batch.records->size());
  tensors.headers.resize(batch.records->size());
  for (std::size_t record = 0; record < batch.records->size(); ++record) {
    const Location& at = batch.located.at(record, self.slot(feature));
    Bytes& message = tensors.messages[record];
    visit_values((*batch.records)[record], at, [&](Bytes value) {
      message = value;
      return true;
    });
    std::string reason;
    if (!parse_tensor_header(message, static_cast<TensorType>(type), tensors.headers[record],
                             reason)) {
      tensors.failures.push_back({record, static_cast<int>(feature), at.offset, std::move(reason)});
    }
  }
  return tensors;
}

// (dims, elements, bytes) of each.
auto tensor_sizes(const Tensors& self) {
  std::vector<std::tuple<std::vector<std::int64_t>, std::uint64_t, std::uint64_t>> sizes;
  for (const TensorHeader& header : self.headers) {
    sizes.emplace_back(header.dims, header.count, header.bytes);
  }
  return sizes;
}

// The part of the arena from `at` on; throws if it does not reach that far.
MutableBytes part_of(MutableBytes arena, std::uint64_t at, std::uint64_t size) {
  if (at > arena.size() || size > arena.size() - at) {
    throw nb::value_error("a tensor lies outside the arena");
  }
  return arena.subspan(at, size);
}

std::vector<std::tuple<std::size_t, std::string>> bind_fill_tensors(
    const Tensors& self, const Matrix<std::uint64_t>& places, const WritableBuffer& buffer) {
  if (places.shape(1) != 2 || places.shape(0) != self.headers.size() || !self.failures.empty()) {
    throw nb::value_error("places must be two columns, for tensors without failures");
  }
  const MutableBytes arena = writable_bytes(buffer);
  std::vector<std::tuple<std::size_t, std::string>> failures;
  for (std::size_t i = 0; i < self.headers.size(); ++i) {
    const TensorHeader& header = self.headers[i];
    const std::uint64_t* place = places.data() + 2 * i;
    const MutableBytes data = part_of(arena, place[1], header.bytes);
    std::string reason;
    bool good = true;
    if (header.type == TensorType::string) {
      const MutableBytes offsets = part_of(arena, place[0], (header.count + 1) * 8);
      const nb::gil_scoped_release unlocked;
      good = fill_string_tensor(self.messages[i], header, offsets, data, reason);
    } else {
      const nb::gil_scoped_release unlocked;
      good = fill_tensor(self.messages[i], header, data, reason);
    }
    if (!good) failures.emplace_back(i, std::move(reason));
  }
  return failures;
}

}  // namespace

void bind_example(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Records>(m, "Records", "Views of the records of a batch; keeps their bytes alive.")
      .def(
          "__init__",
          [](Records* self, const Buffer& buffer, const Vector<std::int64_t>& starts,
             const Vector<std::int64_t>& sizes) {
            new (self) Records(records_of_buffer(buffer, starts, sizes));
          },
          nb::keep_alive<1, 2>(), "buffer"_a, "starts"_a, "sizes"_a,
          "Records buffer[start : start + size].")
      .def(
          "__init__",
          [](Records* self, const nb::tuple& items) {
            new (self) Records(records_of_tuple(items));
          },
          nb::keep_alive<1, 2>(), "records"_a,
          nb::sig("def __init__(self, records: tuple[bytes, ...]) -> None"),
          "Records that are bytes objects.")
      .def_prop_ro("bytes", &Records::bytes, "Of all records together.")
      .def(
          "copy_parts", &bind_copy_parts, "which"_a, "offsets"_a, "size"_a, "out"_a,
          "Copies `size` bytes of record which[i], from offsets[i] on, for each i, one behind the\n"
          "other to `out`, which they fill.");

  nb::class_<LocatedRecords>(m, "Located", "Where the values of a batch lie.")
      .def_prop_ro(
          "failures", [](const LocatedRecords& self) { return to_tuples(self.located.failures); },
          "(record, feature or -1, byte in the record or -1, reason) of damaged records.")
      .def("sizes", &located_sizes,
           "Values, bytes, steps and most parts of each feature: [features * 4].");

  nb::class_<Tensors>(m, "Tensors", "Serialized tensors, one for each record.")
      .def_prop_ro(
          "failures", [](const Tensors& self) { return to_tuples(self.failures); },
          "As Located.failures.")
      .def("sizes", &tensor_sizes, "(dims, elements, bytes) of each.")
      .def(
          "fill", &bind_fill_tensors, "places"_a, "arena"_a,
          "Writes each at its place (offsets of strings, from 0; data). Returns (record, reason).");

  nb::class_<FeatureSpec>(m, "FeatureSpec", "A column to make; see _core/example.h.")
      .def("__init__", &init_spec, "key"_a, nb::kw_only(), "in_lists"_a = false, "element"_a,
           "shape"_a, "count"_a = 1, "optional"_a = false, "narrow_splits"_a = false,
           "default_data"_a = nb::bytes("", 0), "default_sizes"_a = std::vector<std::uint64_t>())
      .def_prop_ro("key", [](const FeatureSpec& self) {
        return nb::bytes(self.key.data(), self.key.size());
      });

  nb::class_<ExampleParser>(m, "ExampleParser",
                            "Parses batches of serialized tf.train.Example and SequenceExample.")
      .def("__init__", &init_parser, "specs"_a, "sequences"_a = false)
      .def_prop_ro("is_fixed", &ExampleParser::is_fixed,
                   "Whether all columns are numbers, of a size that does not depend on the data.")
      .def("locate", &bind_locate, "records"_a, nb::keep_alive<0, 2>(),
           "First pass: finds every feature of the records.")
      .def("fill", &bind_fill, "located"_a, "places"_a, "arena"_a,
           "Second pass: writes the columns at `places` ([features, 4]: offsets of rows, of steps\n"
           "and of bytes values, data) of the arena. Returns failures as Located.failures does.")
      .def("parse_fixed", &bind_parse_fixed, "records"_a, "places"_a, "arena"_a,
           "Both passes at once, where `is_fixed`. Returns failures.")
      .def("spans", &bind_spans, "located"_a, "feature"_a,
           "Offset in its record and size of each value of a span feature, or an aside one of\n"
           "bytes; then offsets and rows as `counts` gives.")
      .def("tensors", &bind_tensors, "located"_a, "feature"_a, "type"_a, nb::keep_alive<0, 2>(),
           "The serialized tensors in a span feature; `type` as in tensorflow.DataType.")
      .def("counts", &bind_counts, "located"_a, "feature"_a,
           "How many values a feature has: (offsets [units + 1], each record's units as offsets).\n"
           "A unit is a record, or a step of a feature list.")
      .def("integers", &bind_integers, "located"_a, "feature"_a,
           "Values of an aside feature of int64, then offsets and rows as `counts` gives, then "
           "failures.");
}

}  // namespace tio
