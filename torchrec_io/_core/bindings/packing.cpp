#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/parser.h"
#include "packing/best_fit.h"
#include "packing/row_writer.h"
#include "records/record_number.h"

namespace tio {
namespace {

// ---- planning ----

// How the lengths of documents count.
struct Rule {
  std::int64_t length;  // of a row
  std::int64_t extra;   // tokens after each document
};

// Largest length of a row. Planning takes memory for each possible room.
constexpr std::int64_t kMostLength = 1 << 24;

Rule rule_of(std::int64_t length, std::int64_t extra) {
  if (length < 1 || length > kMostLength) {
    throw nb::value_error("length must be from 1 to 16777216");
  }
  if (extra < 0 || extra > 1) throw nb::value_error("extra must be 0 or 1");
  return {length, extra};
}

// Looks up the lengths of records. Returns false if a number is not one of a record.
bool look_up(const Vector<std::int32_t>& lengths, std::span<const std::int64_t> numbers,
             const Rule& rule, std::span<std::int64_t> found) {
  const std::int32_t* data = lengths.data();
  const std::uint64_t size = lengths.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(own_number(numbers[i]));
    if (number >= size) return false;
    const std::int64_t length = data[number];
    found[i] = length <= 0 ? 0 : length + rule.extra;
  }
  return true;
}

// Calls `visit` with the lengths of the documents of each window.
template <class Visit>
void visit_windows(const Vector<std::int32_t>& lengths, const Numbers& numbers, const Numbers& cuts,
                   const Rule& rule, Visit visit) {
  const std::span<const std::int64_t> bounds = span_of(cuts);
  const bool is_valid = !bounds.empty() && bounds.front() >= 0 &&
                        std::is_sorted(bounds.begin(), bounds.end()) &&
                        static_cast<std::uint64_t>(bounds.back()) <= numbers.size();
  if (!is_valid) throw nb::value_error("cuts must ascend from 0 to the number of numbers");
  bool is_inside = true;
  {
    const ReleasedGil unlocked(numbers.size() >= kManyNumbers);
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; is_inside && i + 1 < bounds.size(); ++i) {
      const auto size = static_cast<std::size_t>(bounds[i + 1] - bounds[i]);
      found.resize(size);
      is_inside =
          look_up(lengths, span_of(numbers).subspan(static_cast<std::size_t>(bounds[i]), size),
                  rule, found);
      if (is_inside) visit(std::span<const std::int64_t>(found));
    }
  }
  if (!is_inside) throw nb::index_error("a number lies outside of the lengths");
}

NumpyVector<std::int64_t> bind_count_rows(const Vector<std::int32_t>& lengths,
                                          const Numbers& numbers, const Numbers& cuts,
                                          std::int64_t length, std::int64_t extra) {
  const Rule rule = rule_of(length, extra);
  BestFit packer(static_cast<std::size_t>(length));
  std::vector<std::int64_t> rows;
  rows.reserve(cuts.size());
  visit_windows(lengths, numbers, cuts, rule, [&](std::span<const std::int64_t> window) {
    rows.push_back(packer.count(window));
  });
  return to_numpy(std::move(rows));
}

NumpyVector<std::int64_t> bind_count_tokens(const Vector<std::int32_t>& lengths,
                                            const Numbers& numbers, const Numbers& cuts,
                                            std::int64_t extra) {
  const Rule rule = rule_of(1, extra);
  std::vector<std::int64_t> tokens;
  tokens.reserve(cuts.size());
  visit_windows(lengths, numbers, cuts, rule, [&](std::span<const std::int64_t> window) {
    std::int64_t sum = 0;
    for (const std::int64_t length : window) sum += length;
    tokens.push_back(sum);
  });
  return to_numpy(std::move(tokens));
}

RowPlan bind_pack_window(const Vector<std::int32_t>& lengths, const Numbers& numbers,
                         std::int64_t length, std::int64_t extra) {
  const Rule rule = rule_of(length, extra);
  RowPlan plan;
  bool is_inside = false;
  {
    const ReleasedGil unlocked(numbers.size() >= kManyNumbers);
    std::vector<std::int64_t> found(numbers.size());
    is_inside = look_up(lengths, span_of(numbers), rule, found);
    if (is_inside) {
      plan = BestFit(static_cast<std::size_t>(length)).pack(found);
      plan.numbers.assign(numbers.data(), numbers.data() + numbers.size());
      for (const std::int64_t number : plan.numbers) {
        plan.lengths.push_back(lengths.data()[static_cast<std::size_t>(own_number(number))]);
      }
    }
  }
  if (!is_inside) throw nb::index_error("a number lies outside of the lengths");
  return plan;
}

RowPlan bind_cut_rows(const Numbers& numbers, const Numbers& lengths, const Numbers& starts,
                      std::int64_t begin, std::int64_t end, std::int64_t length) {
  auto plan = cut_rows({span_of(numbers), span_of(lengths), span_of(starts)}, begin, end, length);
  if (!plan) throw nb::value_error("the rows must begin in the documents");
  return std::move(*plan);
}

RowPlan bind_take(const RowPlan& plan, const Numbers& rows) {
  auto taken = plan.take(span_of(rows));
  if (!taken) throw nb::index_error("the plan has no such row");
  return std::move(*taken);
}

RowPlan bind_repack(const RowPlan& plan, std::size_t kept, std::int64_t length) {
  const Rule rule = rule_of(length, 0);
  if (kept > plan.rows()) throw nb::index_error("the plan has fewer rows");
  return BestFit(static_cast<std::size_t>(rule.length)).repack(plan, kept);
}

NumpyVector<std::int64_t> bind_first_numbers(const RowPlan& plan) {
  return to_numpy(plan.first_numbers());
}

// ---- writing ----

RowWriter open_writer(const RowPlan& plan, std::size_t length, std::size_t records,
                      const std::optional<Numbers>& sources) {
  std::optional<std::span<const std::int64_t>> found;
  if (sources) found = span_of(*sources);
  auto writer = RowWriter::open(plan, length, records, found);
  if (!writer) throw nb::value_error("the plan must fit the length and the documents");
  return std::move(*writer);
}

std::vector<std::byte> copy_of(const nb::bytes& item) {
  const Bytes bytes = bytes_of(item);
  return {bytes.begin(), bytes.end()};
}

void init_column(PackedColumn* self, std::size_t feature, std::size_t at, const nb::bytes& padding,
                 const std::optional<nb::bytes>& separator) {
  std::optional<std::vector<std::byte>> last;
  if (separator) last = copy_of(*separator);
  new (self) PackedColumn{feature, at, copy_of(padding), std::move(last)};
}

void init_format(RowFormat* self, const Sequence<PackedColumn>& columns, std::size_t segments_at,
                 std::size_t positions_at, bool continues, std::optional<Labels> labels,
                 std::size_t labels_at, std::optional<std::int64_t> separator) {
  new (self) RowFormat{copy_items<PackedColumn>(columns),
                       labels,
                       separator,
                       continues,
                       labels_at,
                       segments_at,
                       positions_at};
}

bool bind_write_documents(const RowWriter& writer, const LocatedBatch& documents,
                          const RowFormat& format, const WritableBuffer& out) {
  const MutableBytes arena = writable_bytes(out);
  if (!writer.fits(documents, format, arena)) {
    throw nb::value_error("the format must fit the documents, and lie inside of the arena");
  }
  const ReleasedGil unlocked;
  return writer.write(documents, format, arena);
}

template <class T>
void copy_to(const WritableBuffer& out, std::size_t at, const std::vector<T>& values) {
  const MutableBytes arena = writable_bytes(out);
  if (at % sizeof(T) != 0 || at > arena.size() || values.size() > (arena.size() - at) / sizeof(T)) {
    throw nb::value_error("an array must be aligned and lie inside of its arena");
  }
  std::memcpy(arena.data() + at, values.data(), values.size() * sizeof(T));
}

void bind_write_pieces(const RowWriter& writer, const WritableBuffer& out, std::size_t splits_at,
                       std::size_t numbers_at, std::size_t segment_splits_at,
                       std::size_t segment_lengths_at) {
  copy_to(out, splits_at, writer.splits);
  copy_to(out, numbers_at, writer.numbers);
  copy_to(out, segment_splits_at, writer.segment_splits);
  copy_to(out, segment_lengths_at, writer.segment_lengths);
}

}  // namespace

void bind_packing(nb::module_& m) {
  m.def("count_packed_rows", &bind_count_rows, "lengths"_a, "numbers"_a, "cuts"_a, "length"_a,
        "extra"_a,
        "Return the number of rows of each window of documents.\n\n"
        "Args:\n"
        "    lengths: Number of tokens of each record. Those without tokens are left out.\n"
        "    numbers: Records of all windows, in order.\n"
        "    cuts: Index in `numbers` of the start of each window, and of the last one's end.\n"
        "    length: Length of a row.\n"
        "    extra: Number of tokens that follow each document: 0 or 1.");
  m.def("count_packed_tokens", &bind_count_tokens, "lengths"_a, "numbers"_a, "cuts"_a, "extra"_a,
        "Return the number of tokens of each window; otherwise as `count_packed_rows`.");
  m.def("pack_window", &bind_pack_window, "lengths"_a, "numbers"_a, "length"_a, "extra"_a,
        "Return the rows of a window of documents; otherwise as `count_packed_rows`.");
  m.def("cut_rows", &bind_cut_rows, "numbers"_a, "lengths"_a, "starts"_a, "begin"_a, "end"_a,
        "length"_a,
        "Return rows that are cut from joined documents.\n\n"
        "Args:\n"
        "    numbers: Record number of each document.\n"
        "    lengths: Number of tokens of each document, without a separator.\n"
        "    starts: First token of each document in the sequence of all tokens.\n"
        "    begin: First token of the rows in that sequence.\n"
        "    end: Token after the last one.\n"
        "    length: Length of a row.");

  nb::class_<RowPlan>(m, "RowPlan", "Rows and the pieces of documents in each.")
      .def(nb::init<>())
      .def("__len__", &RowPlan::rows)
      .def("take", &bind_take, "rows"_a,
           "Return some rows, with their documents in the order of their first pieces.")
      .def("append", &RowPlan::append, "other"_a, "base"_a = 0,
           "Add the rows of another plan, with a number added to its record numbers.")
      .def("repack", &bind_repack, "kept"_a, "length"_a,
           "Return the first rows of a window, and all others packed again.\n\n"
           "Args:\n"
           "    kept: Number of rows that stay as they are.\n"
           "    length: Length of the other rows.")
      .def("first_numbers", &bind_first_numbers,
           "Return the record number of the first document of each row.")
      .def_prop_ro("numbers", array_of(&RowPlan::numbers), nb::rv_policy::reference_internal,
                   "Record number of each document.")
      .def_prop_ro("lengths", array_of(&RowPlan::lengths), nb::rv_policy::reference_internal,
                   "Number of tokens of each document, without a separator.")
      .def_prop_ro("row_begins", array_of(&RowPlan::row_begins), nb::rv_policy::reference_internal,
                   "First piece of each row, then the number of pieces.")
      .def_prop_ro("documents", array_of(&RowPlan::documents), nb::rv_policy::reference_internal,
                   "Index in `numbers` of the document of each piece.")
      .def_prop_ro("begins", array_of(&RowPlan::begins), nb::rv_policy::reference_internal,
                   "First token of each piece in its document.")
      .def_prop_ro("sizes", array_of(&RowPlan::sizes), nb::rv_policy::reference_internal,
                   "Number of tokens of each piece, with the separator.")
      .def_rw("length", &RowPlan::length, "Length of a row; 0 until it is set.");

  nb::enum_<Labels>(m, "Labels", "Which token is the label of a token.")
      .value("same", Labels::same, "The token itself.")
      .value("next", Labels::next, "The next token of its document.");
  nb::class_<PackedColumn>(m, "PackedColumn", "A feature with a value for each token.")
      .def("__init__", &init_column, "feature"_a, "at"_a, "padding"_a, "separator"_a.none(),
           "Args:\n"
           "    feature: Position of its spec in the parser.\n"
           "    at: Offset of the rows in the arena.\n"
           "    padding: Bytes of one value.\n"
           "    separator: Bytes of the value after a document; None repeats its last value.");
  nb::class_<RowFormat>(m, "RowFormat", "The columns of rows that have a value for each token.")
      .def("__init__", &init_format, "columns"_a, nb::kw_only(), "segments_at"_a, "positions_at"_a,
           "continues"_a, "labels"_a.none(), "labels_at"_a, "separator"_a.none(),
           "Args:\n"
           "    columns: The tokens, and other features.\n"
           "    segments_at: Offset of the segments in the arena; int32.\n"
           "    positions_at: Offset of the positions in the arena; int32.\n"
           "    continues: Whether positions are those in the document, not in the piece.\n"
           "    labels: Which token is the label of a token; None for no labels.\n"
           "    labels_at: Offset of the labels in the arena; int64.\n"
           "    separator: Token that follows each document, if there is one.");
  nb::class_<RowWriter>(m, "RowWriter", "Writes the rows of a plan.")
      .def_prop_ro("num_pieces", [](const RowWriter& writer) { return writer.numbers.size(); })
      .def_prop_ro("num_segments",
                   [](const RowWriter& writer) { return writer.segment_lengths.size(); })
      .def("write_pieces", &bind_write_pieces, nb::arg("out").noconvert(), "splits_at"_a,
           "numbers_at"_a, "segment_splits_at"_a, "segment_lengths_at"_a,
           "Write which pieces the rows have.\n\n"
           "Args:\n"
           "    out: Arena of the rows.\n"
           "    splits_at: Offset of the first piece of each row, then the number of pieces; "
           "int64.\n"
           "    numbers_at: Offset of the record number of each piece; int64.\n"
           "    segment_splits_at: As `splits_at`, with the padding of a row as a piece.\n"
           "    segment_lengths_at: Offset of the number of tokens of each of these; int32.")
      .def("write", &bind_write_documents, "documents"_a, "format"_a, nb::arg("out").noconvert(),
           "Decode the documents into rows.\n\n"
           "Args:\n"
           "    documents: The located documents.\n"
           "    format: Columns of the rows.\n"
           "    out: Arena of the rows.\n\n"
           "Returns:\n"
           "    False if a document is invalid, or has not as many values as planned. The rows\n"
           "    are undefined then.");
  m.def("row_writer", &open_writer, "plan"_a, "length"_a, "records"_a, "sources"_a.none(),
        "Return the writer of the rows of a plan.\n\n"
        "Args:\n"
        "    plan: The rows.\n"
        "    length: Length of a row.\n"
        "    records: Number of records in the batch of documents.\n"
        "    sources: Record of each document in that batch, -1 if it is lost; None if they are\n"
        "        the same.");
}

}  // namespace tio
