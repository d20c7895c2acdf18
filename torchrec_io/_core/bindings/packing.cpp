#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "packing/best_fit.h"
#include "packing/row_writer.h"

namespace tio {
namespace {

// ---- planning ----

// How the lengths of documents count.
struct Rule {
  std::int64_t length;  // of a row
  std::int64_t extra;   // tokens after each document
  bool has_splits;      // documents longer than a row are split, not left out
};

// Largest length of a row. Planning takes memory for each possible room.
constexpr std::int64_t kMostLength = 1 << 24;

Rule rule_of(std::int64_t length, std::int64_t extra, bool has_splits) {
  if (length < 1 || length > kMostLength) {
    throw nb::value_error("length must be from 1 to 16777216");
  }
  if (extra < 0 || extra > 1) throw nb::value_error("extra must be 0 or 1");
  return {length, extra, has_splits};
}

// Looks up the lengths of records. Returns false if a number is not one of a record.
bool look_up(const Vector<std::int32_t>& lengths, std::span<const std::int64_t> numbers,
             const Rule& rule, std::span<std::int64_t> found) {
  const std::int32_t* data = lengths.data();
  const std::uint64_t size = lengths.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(numbers[i]);
    if (number >= size) return false;
    std::int64_t length = data[number];
    if (length <= 0) {
      length = 0;
    } else if ((length += rule.extra) > rule.length && !rule.has_splits) {
      length = 0;
    }
    found[i] = length;
  }
  return true;
}

// Calls `visit` with the lengths of the documents of each window.
template <class Visit>
void visit_windows(const Vector<std::int32_t>& lengths, const Numbers& numbers, const Numbers& cuts,
                   const Rule& rule, Visit visit) {
  const std::span<const std::int64_t> bounds = span_of(cuts);
  const bool is_sound = !bounds.empty() && bounds.front() >= 0 &&
                        std::is_sorted(bounds.begin(), bounds.end()) &&
                        static_cast<std::uint64_t>(bounds.back()) <= numbers.size();
  if (!is_sound) throw nb::value_error("cuts must ascend from 0 to the number of numbers");
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
                                          std::int64_t length, std::int64_t extra,
                                          bool has_splits) {
  const Rule rule = rule_of(length, extra, has_splits);
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
  const Rule rule = rule_of(1, extra, true);
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
                         std::int64_t length, std::int64_t extra, bool has_splits) {
  const Rule rule = rule_of(length, extra, has_splits);
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
        plan.lengths.push_back(lengths.data()[static_cast<std::size_t>(number)]);
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

NumpyVector<std::int64_t> bind_first_numbers(const RowPlan& plan) {
  return to_numpy(plan.first_numbers());
}

bool bind_has_lengths(const RowPlan& plan, const Numbers& begins, const Numbers& ends) {
  return plan.has_lengths(span_of(begins), span_of(ends));
}

// ---- writing ----

// Tokens are copied by many at a time: fewer than these take less time than a thread to wake up.
constexpr std::size_t kManyTokens = std::size_t{1} << 17;

RowWriter open_writer(const RowPlan& plan, std::size_t length, const Numbers& starts,
                      const std::optional<Numbers>& sources) {
  std::optional<std::span<const std::int64_t>> rows;
  if (sources) rows = span_of(*sources);
  auto writer = RowWriter::open(plan, length, span_of(starts), rows);
  if (!writer) throw nb::value_error("the plan must fit the length and the documents");
  return std::move(*writer);
}

// Returns `count` items of an arena, which are aligned.
template <class Span, class Arena>
Span items_at(const Arena& arena, std::size_t at, std::size_t count) {
  using T = typename Span::element_type;
  if (at % sizeof(T) != 0 || at > arena.size() || count > (arena.size() - at) / sizeof(T)) {
    throw nb::value_error("an array must be aligned and lie inside of its arena");
  }
  return Span(reinterpret_cast<T*>(arena.data() + at), count);
}

void bind_write_values(const RowWriter& writer, const Buffer& source, std::size_t source_at,
                       const nb::bytes& padding, const std::optional<nb::bytes>& separator,
                       const WritableBuffer& out, std::size_t out_at) {
  const Bytes item = bytes_of(padding);
  std::optional<Bytes> last;
  if (separator) last = bytes_of(*separator);
  if (item.empty() || item.size() > 16 || (last && last->size() != item.size())) {
    throw nb::value_error("padding and separator must be one item each");
  }
  const auto from = items_at<Bytes>(source, source_at, writer.needed() * item.size());
  const auto to = items_at<MutableBytes>(out, out_at, writer.total() * item.size());
  const ReleasedGil unlocked(writer.total() >= kManyTokens);
  writer.write_values(from, item, last, to);
}

void bind_write_marks(const RowWriter& writer, bool continues, const WritableBuffer& out,
                      std::size_t segments_at, std::size_t positions_at) {
  const auto segments = items_at<std::span<std::int32_t>>(out, segments_at, writer.total());
  const auto positions = items_at<std::span<std::int32_t>>(out, positions_at, writer.total());
  const ReleasedGil unlocked(writer.total() >= kManyTokens);
  writer.write_marks(continues, segments, positions);
}

template <class T>
void copy_to(const WritableBuffer& out, std::size_t at, const std::vector<T>& values) {
  std::copy(values.begin(), values.end(), items_at<std::span<T>>(out, at, values.size()).begin());
}

void bind_write_pieces(const RowWriter& writer, const WritableBuffer& out, std::size_t splits_at,
                       std::size_t numbers_at, std::size_t segment_splits_at,
                       std::size_t segment_lengths_at) {
  copy_to(out, splits_at, writer.splits);
  copy_to(out, numbers_at, writer.numbers);
  copy_to(out, segment_splits_at, writer.segment_splits);
  copy_to(out, segment_lengths_at, writer.segment_lengths);
}

template <class T>
void write_labels_of(const RowWriter& writer, Labels labels, const Buffer& source,
                     std::size_t source_at, std::optional<std::int64_t> separator,
                     std::span<std::int64_t> out) {
  const auto tokens = items_at<std::span<const T>>(source, source_at, writer.needed());
  const ReleasedGil unlocked(out.size() >= kManyTokens);
  writer.write_labels<T>(labels, tokens, separator, out);
}

void bind_write_labels(const RowWriter& writer, Labels labels, const Buffer& source,
                       std::size_t source_at, const std::string& dtype,
                       std::optional<std::int64_t> separator, const WritableBuffer& out,
                       std::size_t out_at) {
  using Write = decltype(&write_labels_of<std::int64_t>);
  static constexpr std::pair<std::string_view, Write> kWrites[] = {
      {"int64", &write_labels_of<std::int64_t>},   {"int32", &write_labels_of<std::int32_t>},
      {"int16", &write_labels_of<std::int16_t>},   {"int8", &write_labels_of<std::int8_t>},
      {"uint32", &write_labels_of<std::uint32_t>}, {"uint16", &write_labels_of<std::uint16_t>},
      {"uint8", &write_labels_of<std::uint8_t>}};
  const auto to = items_at<std::span<std::int64_t>>(out, out_at, writer.total());
  for (const auto& [name, write] : kWrites) {
    if (name == dtype) return write(writer, labels, source, source_at, separator, to);
  }
  throw nb::value_error("labels need tokens of an integer dtype");
}

}  // namespace

void bind_packing(nb::module_& m) {
  m.def("count_packed_rows", &bind_count_rows, "lengths"_a, "numbers"_a, "cuts"_a, "length"_a,
        "extra"_a, "has_splits"_a,
        "Return the number of rows of each window of documents.\n\n"
        "Args:\n"
        "    lengths: Number of tokens of each record. Those without tokens are left out.\n"
        "    numbers: Records of all windows, in order.\n"
        "    cuts: Index in `numbers` of the start of each window, and of the last one's end.\n"
        "    length: Length of a row.\n"
        "    extra: Number of tokens that follow each document: 0 or 1.\n"
        "    has_splits: Whether documents longer than a row are split, not left out.");
  m.def("count_packed_tokens", &bind_count_tokens, "lengths"_a, "numbers"_a, "cuts"_a, "extra"_a,
        "Return the number of tokens of each window; otherwise as `count_packed_rows`.");
  m.def("pack_window", &bind_pack_window, "lengths"_a, "numbers"_a, "length"_a, "extra"_a,
        "has_splits"_a,
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
      .def("append", &RowPlan::append, "other"_a, "Add the rows of another plan.")
      .def("has_lengths", &bind_has_lengths, "begins"_a, "ends"_a,
           "Return whether documents have as many tokens as planned.\n\n"
           "Args:\n"
           "    begins: First token of each document.\n"
           "    ends: Token after the last one of each.")
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
                   "Number of tokens of each piece, with the separator.");

  nb::enum_<Labels>(m, "Labels", "Which token is the label of a token.")
      .value("same", Labels::same, "The token itself.")
      .value("next", Labels::next, "The next token of its document.");
  nb::class_<RowWriter>(m, "RowWriter", "Writes the rows of a plan from one arena into another.")
      .def_prop_ro("splits", array_of(&RowWriter::splits), nb::rv_policy::reference_internal,
                   "First piece of each row, then the number of pieces.")
      .def_prop_ro("rows", array_of(&RowWriter::rows), nb::rv_policy::reference_internal,
                   "Source row of each piece.")
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
      .def("write_values", &bind_write_values, "source"_a, "source_at"_a, "padding"_a,
           "separator"_a.none(), nb::arg("out").noconvert(), "out_at"_a,
           "Write values of the documents.\n\n"
           "Args:\n"
           "    source: Arena of the documents.\n"
           "    source_at: Offset of the values in it.\n"
           "    padding: Bytes of one value.\n"
           "    separator: Bytes of the value after a document; None repeats its last value.\n"
           "    out: Arena of the rows.\n"
           "    out_at: Offset of the rows in it.")
      .def("write_marks", &bind_write_marks, "continues"_a, nb::arg("out").noconvert(),
           "segments_at"_a, "positions_at"_a,
           "Write the segment and the position of each token.\n\n"
           "Args:\n"
           "    continues: Whether positions are those in the document, not in the piece.\n"
           "    out: Arena of the rows.\n"
           "    segments_at: Offset of the segments in it; int32.\n"
           "    positions_at: Offset of the positions in it; int32.")
      .def("write_labels", &bind_write_labels, "labels"_a, "source"_a, "source_at"_a, "dtype"_a,
           "separator"_a.none(), nb::arg("out").noconvert(), "out_at"_a,
           "Write the label of each token, int64; otherwise as `write_values`.");
  m.def("row_writer", &open_writer, "plan"_a, "length"_a, "starts"_a, "sources"_a.none(),
        "Return the writer of the rows of a plan.\n\n"
        "Args:\n"
        "    plan: The rows.\n"
        "    length: Length of a row.\n"
        "    starts: First value of each source row.\n"
        "    sources: Source row of each document, -1 if it is lost; None if they are the same.");
}

}  // namespace tio
