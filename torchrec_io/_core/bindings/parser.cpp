#include "example/parser.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/parser.h"
#include "example/located_batch.h"
#include "example/stored_values.h"
#include "example/tensor_batch.h"

namespace tio {
namespace {

// ---- records ----

void init_records_of_buffer(Records* self, Buffer buffer, const Numbers& starts,
                            const Numbers& sizes) {
  const Bytes bytes = bytes_of(buffer);
  if (!Records::fits(bytes, span_of(starts), span_of(sizes))) {
    throw nb::value_error("a record lies outside the buffer");
  }
  new (self) Records(bytes, span_of(starts), span_of(sizes), owner_of(std::move(buffer)));
}

// Neither a tuple nor bytes objects can change.
void init_records_of_tuple(Records* self, nb::tuple items) {
  std::vector<Bytes> views;
  views.reserve(items.size());
  for (const nb::handle item : items) views.push_back(bytes_of(item));
  new (self) Records(std::move(views), owner_of(std::move(items)));
}

void bind_copy_parts(const Records& self, const Numbers& which, const Numbers& offsets,
                     std::size_t size, const WritableBuffer& out) {
  bool is_copied = false;
  {
    const ReleasedGil unlocked;
    is_copied = self.copy_parts(span_of(which), span_of(offsets), size, writable_bytes(out));
  }
  if (!is_copied) {
    throw nb::value_error("the parts must lie inside their records and fill `out`");
  }
}

// ---- parser ----

void init_spec(FeatureSpec* self, const nb::bytes& key, Dtype dtype, ColumnType column_type,
               std::uint64_t count, bool in_lists, bool is_optional, bool int32_splits,
               const nb::bytes& default_data, const Sequence<std::uint64_t>& default_sizes) {
  const auto* data = static_cast<const std::byte*>(default_data.data());
  FeatureSpec spec{.key = std::string(key.c_str(), key.size()),
                   .in_lists = in_lists,
                   .dtype = dtype,
                   .column_type = column_type,
                   .count = count,
                   .is_optional = is_optional,
                   .int32_splits = int32_splits,
                   .default_data = {data, data + default_data.size()},
                   .default_sizes = Items<std::uint64_t>(default_sizes).values()};
  if (const char* fault = spec.fault()) throw nb::value_error(fault);
  new (self) FeatureSpec(std::move(spec));
}

FeatureSpec without_column(const FeatureSpec& self) {
  FeatureSpec spec = self;
  spec.has_column = false;
  if (const char* fault = spec.fault()) throw nb::value_error(fault);
  return spec;
}

// ---- located batches ----

const FeatureSpec& spec_of(const LocatedBatch& self, std::size_t feature) {
  if (feature >= self.parser().specs().size()) throw nb::index_error("the feature does not exist");
  return self.parser().specs()[feature];
}

const ColumnSize& bind_size(const LocatedBatch& self, std::size_t feature) {
  spec_of(self, feature);
  return self.located().sizes[feature];
}

UnitOffsets bind_count_units(const LocatedBatch& self, std::size_t feature) {
  spec_of(self, feature);
  const ReleasedGil unlocked;
  return count_units(self.parser(), *self.records(), self.located(), feature);
}

ByteSpans bind_find_spans(const LocatedBatch& self, std::size_t feature) {
  if (spec_of(self, feature).dtype != Dtype::bytes) {
    throw nb::value_error("the feature must be of bytes");
  }
  const ReleasedGil unlocked;
  return find_spans(self.parser(), *self.records(), self.located(), feature);
}

StoredInts bind_decode_ints(const LocatedBatch& self, std::size_t feature) {
  if (spec_of(self, feature).dtype != Dtype::int64) {
    throw nb::value_error("the feature must be of int64");
  }
  const ReleasedGil unlocked;
  return decode_ints(self.parser(), *self.records(), self.located(), feature);
}

TensorBatch bind_tensors(const LocatedBatch& self, std::size_t feature, TensorType type) {
  if (spec_of(self, feature).column_type != ColumnType::span) {
    throw nb::value_error("the column type of the feature must be span");
  }
  const ReleasedGil unlocked;
  return {self.parser(), self.records(), self.located(), feature, type};
}

std::vector<Failure> bind_fill_tensors(const TensorBatch& self,
                                       const Vector<std::uint64_t>& offsets,
                                       const Vector<std::uint64_t>& data,
                                       const WritableBuffer& arena) {
  if (!self.failures().empty()) throw nb::value_error("the batch has failures");
  if (!self.fits(span_of(offsets), span_of(data), writable_bytes(arena))) {
    throw nb::value_error("a tensor lies outside the arena");
  }
  const ReleasedGil unlocked;
  return self.fill(span_of(offsets), span_of(data), writable_bytes(arena));
}

// ---- classes ----

void bind_enums(nb::module_& m) {
  nb::enum_<Kind>(m, "Kind", "Kind of the values that a Feature stores.")
      .value("bytes", Kind::bytes)
      .value("floats", Kind::floats)
      .value("ints", Kind::ints);
  nb::enum_<Dtype>(m, "Dtype", "Element type of a column.")
      .value("int64", Dtype::int64)
      .value("int32", Dtype::int32)
      .value("int16", Dtype::int16)
      .value("int8", Dtype::int8)
      .value("uint64", Dtype::uint64)
      .value("uint32", Dtype::uint32)
      .value("uint16", Dtype::uint16)
      .value("uint8", Dtype::uint8)
      .value("bool", Dtype::boolean)
      .value("float32", Dtype::float32)
      .value("float64", Dtype::float64)
      .value("float16", Dtype::float16)
      .value("bfloat16", Dtype::bfloat16)
      .value("string", Dtype::bytes);
  nb::enum_<TensorType>(m, "TensorType", "Element type of a tensor, numbered as in TensorFlow.")
      .value("float32", TensorType::float32)
      .value("float64", TensorType::float64)
      .value("int32", TensorType::int32)
      .value("uint8", TensorType::uint8)
      .value("int16", TensorType::int16)
      .value("int8", TensorType::int8)
      .value("string", TensorType::string)
      .value("complex64", TensorType::complex64)
      .value("int64", TensorType::int64)
      .value("bool", TensorType::boolean)
      .value("bfloat16", TensorType::bfloat16)
      .value("uint16", TensorType::uint16)
      .value("complex128", TensorType::complex128)
      .value("float16", TensorType::float16)
      .value("uint32", TensorType::uint32)
      .value("uint64", TensorType::uint64);
  nb::enum_<ColumnType>(
      m, "ColumnType",
      "Rule that turns the values of a feature, or of each step of a feature list, into a column.")
      .value("fixed", ColumnType::fixed, "Exactly `count` values per record.")
      .value("ragged", ColumnType::ragged,
             "Any number of values per record or step, with row splits.")
      .value("flat", ColumnType::flat,
             "Any number of values per record or step, without row splits.")
      .value("padded", ColumnType::padded,
             "Parts (steps) of exactly `count` values, padded to the longest of the batch.")
      .value("raw_bytes", ColumnType::raw_bytes,
             "One bytes value of exactly `count` bytes per record, copied.")
      .value("resized_bytes", ColumnType::resized_bytes,
             "One bytes value per record, truncated or zero-padded to `count` bytes.")
      .value("span", ColumnType::span,
             "One bytes value per record; no column. `LocatedBatch.spans` locates it.")
      .value(
          "on_request", ColumnType::on_request,
          "Any number of int64 or bytes values; no column. `LocatedBatch.ints` or `spans` return\n"
          "them.");
}

void bind_records(nb::module_& m) {
  nb::class_<Records>(m, "Records", "The records of a batch. Keeps their bytes alive.")
      .def("__init__", &init_records_of_buffer, "buffer"_a, "starts"_a, "sizes"_a,
           "Args:\n"
           "    buffer: Bytes that contain the records, which must not change.\n"
           "    starts: Offset of each record in the buffer.\n"
           "    sizes: Bytes of each record.")
      .def("__init__", &init_records_of_tuple, "records"_a,
           nb::sig("def __init__(self, records: tuple[bytes, ...]) -> None"),
           "Args:\n"
           "    records: Bytes of each record.")
      .def_prop_ro("total_bytes", &Records::bytes, "Total size of all records.")
      .def("copy_parts", &bind_copy_parts, "which"_a, "offsets"_a, "size"_a, "out"_a,
           "Copy parts of records, one after another.\n\n"
           "Args:\n"
           "    which: Position of the record of each part.\n"
           "    offsets: Offset of each part in its record.\n"
           "    size: Bytes of each part.\n"
           "    out: Bytes that receive the parts, which fill it.");
}

void init_parser(ExampleParser* self, const Sequence<FeatureSpec>& specs, bool sequences) {
  new (self) ExampleParser(copy_items<FeatureSpec>(specs), sequences);
}

LocatedBatch bind_locate(nb::handle_t<ExampleParser> self, nb::handle_t<Records> records) {
  const auto shared_parser = share(self);
  const auto shared_records = share(records);
  const ReleasedGil unlocked;
  return {shared_parser, shared_records};
}

void bind_parse_results(nb::module_& m) {
  nb::class_<Failure>(m, "Failure", "A record that cannot be parsed.")
      .def_ro("record", &Failure::record, "Position of the record in the batch.")
      .def_ro("feature", &Failure::feature,
              "Position of the feature in the specs; None for the record as a whole.")
      .def_ro("offset", &Failure::offset, "Byte in the record; None if something is missing.")
      .def_ro("reason", &Failure::reason, "Reason, as part of an error message.");

  nb::class_<ColumnSize>(m, "ColumnSize", "The room that a column needs.")
      .def_ro("values", &ColumnSize::values, "Number of values.")
      .def_ro("bytes", &ColumnSize::bytes, "Total size of bytes values.")
      .def_ro("steps", &ColumnSize::steps, "Number of steps of feature lists.")
      .def_ro("longest", &ColumnSize::longest,
              "Number of parts (steps) of the record that has the most.");

  nb::class_<ColumnTargets>(m, "ColumnTargets",
                            "Offsets in an arena that the columns of a batch are written to.")
      .def(nb::init<std::size_t>(), "columns"_a,
           "Args:\n"
           "    columns: Number of columns.")
      .def(
          "copy", [](const ColumnTargets& self) { return ColumnTargets(self); },
          "Return a copy of the targets.")
      .def(
          "set",
          [](ColumnTargets& self, std::size_t column, std::uint64_t rows, std::uint64_t steps,
             std::uint64_t values,
             std::uint64_t data) { self.at(column) = {rows, steps, values, data}; },
          "column"_a, nb::kw_only(), "rows"_a = 0, "steps"_a = 0, "values"_a = 0, "data"_a = 0,
          "Set the offsets of the parts of a column in the arena, in bytes.\n\n"
          "Args:\n"
          "    column: Position of the column.\n"
          "    rows: Row splits [records + 1]; for a padded column int64 lengths [records].\n"
          "    steps: Splits of the steps [steps + 1] of a ragged feature list.\n"
          "    values: int64 offsets [values + 1] of bytes values in the data.\n"
          "    data: Elements, or the joined bytes values.")
      .def(
          "data_offset",
          [](ColumnTargets& self, std::size_t column) { return self.at(column).data; }, "column"_a,
          "Return the offset of the data of a column.");

  nb::class_<UnitOffsets>(m, "UnitOffsets",
                          "Division of the values of a feature into units.\n\n"
                          "A unit is a record, or a step of a feature list.")
      .def_prop_ro("values", array_of(&UnitOffsets::values),
                   "Number of the first value of each unit, and of all values; int64 [units + 1].")
      .def_prop_ro(
          "records", array_of(&UnitOffsets::records),
          "Number of the first unit of each record, and of all units; int64 [records + 1].");

  nb::class_<ByteSpans>(m, "ByteSpans", "Locations of bytes values in their records.")
      .def_prop_ro("offsets", array_of(&ByteSpans::offsets),
                   "Offset of each value in its record; int64 [values].")
      .def_prop_ro("sizes", array_of(&ByteSpans::sizes), "Bytes of each value; int64 [values].")
      .def_ro("units", &ByteSpans::units, "Division of the values into units.");

  nb::class_<StoredInts>(m, "StoredInts", "Decoded integers of a feature.")
      .def_prop_ro("values", array_of(&StoredInts::values), "Values; int64 [values].")
      .def_ro("units", &StoredInts::units, "Division of the values into units.")
      .def_ro("failures", &StoredInts::failures, "Records with invalid values.");

  nb::class_<TensorHeader>(m, "TensorHeader", "The shape and size of a serialized tensor.")
      .def_prop_ro(
          "shape", [](const TensorHeader& self) { return nb::tuple(nb::cast(self.dims)); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Dimensions of the tensor.")
      .def_ro("bytes", &TensorHeader::bytes,
              "Total size of the elements; for strings, of the joined values.");

  nb::class_<TensorBatch>(m, "TensorBatch", "The serialized tensors of a feature.")
      .def_prop_ro("failures", &TensorBatch::failures,
                   "Records whose value is not a tensor of the expected type.")
      .def_prop_ro("headers", &TensorBatch::headers, "Shape and size of each record's tensor.")
      .def("fill", &bind_fill_tensors, "offsets"_a, "data"_a, "arena"_a,
           "Write the tensors into the arena, and return the failures.\n\n"
           "Args:\n"
           "    offsets: Arena offset of each tensor's int64 offsets [elements + 1], for strings.\n"
           "        They count from the start of the tensor's data.\n"
           "    data: Arena offset of each tensor's data.\n"
           "    arena: Bytes that receive the tensors.");
}

}  // namespace

void bind_parser(nb::module_& m) {
  bind_enums(m);
  bind_records(m);
  bind_parse_results(m);

  nb::class_<LocatedBatch>(m, "LocatedBatch",
                           "The result of the first pass. Keeps its parser and records alive.")
      .def_prop_ro(
          "failures", [](const LocatedBatch& self) { return self.located().failures; },
          "Records that cannot be parsed, at most one failure each.")
      .def("size", &bind_size, "feature"_a, nb::rv_policy::copy,
           "Return the room that the column of a feature needs.")
      .def("units", &bind_count_units, "feature"_a, "Count the values of a feature.")
      .def("spans", &bind_find_spans, "feature"_a, "Locate the values of a feature of bytes.")
      .def("ints", &bind_decode_ints, "feature"_a, "Decode the values of a feature of int64.")
      .def("tensors", &bind_tensors, "feature"_a, "type"_a,
           "Read the headers of the serialized tensors in a span feature.");

  nb::class_<FeatureSpec>(m, "FeatureSpec", "A column and the stored feature that it is made of.")
      .def("__init__", &init_spec, "key"_a, "dtype"_a, "column_type"_a, nb::kw_only(),
           "count"_a = 1, "in_lists"_a = false, "is_optional"_a = false, "int32_splits"_a = false,
           "default_data"_a = nb::bytes("", 0), "default_sizes"_a = nb::tuple(),
           "Args:\n"
           "    key: Name of the stored feature.\n"
           "    dtype: Element type of the column.\n"
           "    column_type: Rule that turns the values into a column.\n"
           "    count: Number of values or bytes; see ColumnType.\n"
           "    in_lists: Whether the feature is a feature list.\n"
           "    is_optional: Whether records may lack the feature.\n"
           "    int32_splits: Whether row splits are int32 instead of int64.\n"
           "    default_data: Elements of records without the feature, or one element of padding.\n"
           "    default_sizes: Bytes of each value in `default_data`, for bytes.\n\n"
           "Raises:\n"
           "    ValueError: If the arguments contradict each other.")
      .def("without_column", &without_column,
           "Return the spec of the same values, which are located but not written.\n\n"
           "Raises:\n"
           "    ValueError: If the column is not a list of numbers.")
      .def_prop_ro(
          "key",
          [](const FeatureSpec& self) { return nb::bytes(self.key.data(), self.key.size()); },
          "Name of the stored feature.");

  nb::class_<ExampleParser>(m, "ExampleParser",
                            "Parser of serialized tf.train.Example and SequenceExample records.")
      .def("__init__", &init_parser, "specs"_a, "sequences"_a = false,
           "Args:\n"
           "    specs: Columns to make.\n"
           "    sequences: Whether the records are SequenceExamples.")
      .def_prop_ro("is_fixed", &ExampleParser::is_fixed,
                   "Whether each row of all columns has a size that does not depend on the data.")
      .def("locate", &bind_locate, "records"_a, "First pass: locate the values of the records.");
}

}  // namespace tio
