#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "rows/row_gather.h"

namespace tio {
namespace {

// Smaller calls take less time than other threads need to wake up.
constexpr std::size_t kManyOffsets = 16384;
constexpr std::size_t kLongCopyBytes = 1 << 18;

// Returns the rows of a table of int64 as objects of as many int64 fields.
template <class Row>
std::vector<Row> to_rows(const Matrix<std::int64_t>& table) {
  constexpr std::size_t kFields = sizeof(Row) / sizeof(std::int64_t);
  if (table.shape(1) != kFields) throw nb::value_error("a table has another number of columns");
  std::vector<Row> rows(table.shape(0));
  static_assert(std::is_trivially_copyable_v<Row>);
  auto* to = static_cast<void*>(rows.data());
  if (!rows.empty()) std::memcpy(to, table.data(), rows.size() * sizeof(Row));
  return rows;
}

std::vector<Bytes> sources_of(const Items<Buffer>& arenas) {
  std::vector<Bytes> sources;
  for (const Buffer& arena : arenas.values()) sources.push_back(bytes_of(arena));
  return sources;
}

// Returns about how many offsets the plan of a copy reads.
std::size_t count_offsets(const std::vector<ArrayForm>& forms, const std::vector<RowSpans>& spans) {
  std::size_t rows = 0;
  for (const RowSpans& selection : spans) {
    for (const RowSpan& span : selection) rows += static_cast<std::size_t>(span.count);
  }
  return rows * forms.size();
}

void init_gather(RowGather* self, const Sequence<Buffer>& sources,
                 const Matrix<std::int64_t>& arrays, const Matrix<std::int64_t>& places,
                 const Sequence<Matrix<std::int64_t>>& selections, std::int64_t alignment) {
  const Items<Buffer> arenas(sources);
  const Items<Matrix<std::int64_t>> tables(selections);
  std::vector<RowSpans> spans;
  for (const auto& table : tables.values()) spans.push_back(to_rows<RowSpan>(table));
  const std::vector<Bytes> bytes = sources_of(arenas);
  std::vector<ArrayForm> forms = to_rows<ArrayForm>(arrays);
  std::vector<ArrayPlace> found = to_rows<ArrayPlace>(places);
  const ReleasedGil unlocked(count_offsets(forms, spans) > kManyOffsets);
  new (self) RowGather(bytes, std::move(forms), std::move(found), std::move(spans), alignment);
}

void bind_write_rows(const RowGather& self, const Sequence<Buffer>& sources,
                     const WritableBuffer& out) {
  const Items<Buffer> arenas(sources);
  const std::vector<Bytes> bytes = sources_of(arenas);
  const ReleasedGil unlocked(out.size() > kLongCopyBytes);
  self.write(bytes, writable_bytes(out));
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::enum_<ArrayKind>(m, "ArrayKind", "The kind of an array of a column.")
      .value("items", ArrayKind::items, "Items; the last array of a column.")
      .value("offsets", ArrayKind::offsets, "Where the values of a row begin in the next array.")
      .value("indices", ArrayKind::indices, "Sparse indices of the values in the next array.")
      .value("padded", ArrayKind::padded,
             "Offsets of rows that the copy pads to one length; in the copy, int64 lengths.");
  nb::class_<RowGather>(m, "RowGather",
                        "Copies rows of columns from several arenas into a new one.\n\n"
                        "A column is a chain of arrays, outermost first, that ends with items.")
      .def(
          "__init__", &init_gather, "sources"_a, "arrays"_a, "places"_a, "selections"_a,
          "alignment"_a,
          "Plan the copy. Rows that offsets place outside of the next array are cut.\n\n"
          "Args:\n"
          "    sources: The arenas. They are not kept.\n"
          "    arrays: int64 [arrays, 8]: kind, bytes of an item, selection that the column\n"
          "        begins with, items in a row of the copy, number of arrays of items with the\n"
          "        same rows, number of items that are copied from each row at most, and two\n"
          "        numbers for padding: an item and 0; or, of offsets, the first row of a value "
          "in\n"
          "        the next array of the last source, and the number of its rows.\n"
          "    places: int64 [sources * arrays, 4], all arrays of a source before those of the\n"
          "        next one: offset in the arena, rows, bytes from each of the arrays of items to\n"
          "        the next one, and items in a row.\n"
          "    selections: int64 [n, 3] each: source, first row and number of rows. Rows of\n"
          "        source -1 are padding.\n"
          "    alignment: Alignment of the arrays of the copy in bytes; 0 for that of items.\n\n"
          "Raises:\n"
          "    ValueError: If an array or a row lies outside of its source.\n"
          "    OverflowError: If the copy needs larger offsets than its type has.")
      .def_prop_ro("arrays", array_of(&RowGather::arrays), nb::rv_policy::reference_internal,
                   "Three numbers for each array of the copy: its rows (of indices, their\n"
                   "number), its offset in the arena, and its stride.")
      .def_ro("arena_bytes", &RowGather::arena_bytes,
              "Size of the arena of the copy in bytes; at most 2^58, where it needs more.")
      .def("write", &bind_write_rows, "sources"_a, "out"_a,
           "Copy the rows.\n\n"
           "Args:\n"
           "    sources: The arenas, of the same sizes.\n"
           "    out: The arena of the copy.\n\n"
           "Raises:\n"
           "    ValueError: If an arena has another size, or `out` is too small.");
}

}  // namespace tio
