#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
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

using PackedArrays = std::tuple<NumpyVector<std::int64_t>, NumpyVector<std::int64_t>,
                                NumpyVector<std::int64_t>, NumpyVector<std::int64_t>>;

PackedArrays bind_pack_window(const Vector<std::int32_t>& lengths, const Numbers& numbers,
                              std::int64_t length, std::int64_t extra, bool has_splits) {
  const Rule rule = rule_of(length, extra, has_splits);
  PackedPieces packed;
  bool is_inside = false;
  {
    const ReleasedGil unlocked(numbers.size() >= kManyNumbers);
    std::vector<std::int64_t> found(numbers.size());
    is_inside = look_up(lengths, span_of(numbers), rule, found);
    if (is_inside) packed = BestFit(static_cast<std::size_t>(length)).pack(found);
  }
  if (!is_inside) throw nb::index_error("a number lies outside of the lengths");
  return {to_numpy(std::move(packed.row_begins)), to_numpy(std::move(packed.documents)),
          to_numpy(std::move(packed.begins)), to_numpy(std::move(packed.sizes))};
}

// ---- writing ----

Placement placement_of(const Matrix<std::int64_t>& pieces, std::size_t source, std::size_t total) {
  if (pieces.shape(0) != 5) throw nb::value_error("pieces must have 5 rows");
  const std::size_t count = pieces.shape(1);
  const auto row = [&](std::size_t i) {
    return std::span<const std::int64_t>(pieces.data() + i * count, count);
  };
  const Placement placement{row(0), row(1), row(2), row(3), row(4)};
  if (!placement.is_valid(source, total)) {
    throw nb::value_error("pieces must ascend and lie inside of their source and of the rows");
  }
  return placement;
}

void bind_write_values(const Matrix<std::int64_t>& pieces, const Buffer& source,
                       const nb::bytes& padding, const std::optional<nb::bytes>& separator,
                       const WritableBuffer& out) {
  const Bytes item = bytes_of(padding);
  std::optional<Bytes> last;
  if (separator) last = bytes_of(*separator);
  if (item.empty() || (last && last->size() != item.size()) || source.size() % item.size() != 0 ||
      out.size() % item.size() != 0) {
    throw nb::value_error("padding and separator must be one item each");
  }
  const Placement placement =
      placement_of(pieces, source.size() / item.size(), out.size() / item.size());
  const ReleasedGil unlocked(out.size() >= kManyNumbers);
  write_values(placement, bytes_of(source), item, last, writable_bytes(out));
}

template <class T>
using Writable = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_write_marks(const Matrix<std::int64_t>& pieces, std::size_t length, bool continues,
                      const Writable<std::int32_t>& segments,
                      const Writable<std::int64_t>& positions) {
  if (length == 0 || segments.size() != positions.size()) {
    throw nb::value_error("segments and positions must have the same size");
  }
  const Placement placement = placement_of(pieces, INT64_MAX, segments.size());
  const ReleasedGil unlocked(segments.size() >= kManyNumbers);
  write_marks(placement, length, continues, {segments.data(), segments.size()},
              {positions.data(), positions.size()});
}

template <class T>
void bind_write_labels(const Matrix<std::int64_t>& pieces, Labels labels, const Vector<T>& source,
                       std::optional<std::int64_t> separator, const Writable<std::int64_t>& out) {
  const Placement placement = placement_of(pieces, source.size(), out.size());
  const ReleasedGil unlocked(out.size() >= kManyNumbers);
  write_labels<T>(placement, labels, span_of(source), separator, {out.data(), out.size()});
}

template <class... Ts>
void def_write_labels(nb::module_& m) {
  (m.def("write_packed_labels", &bind_write_labels<Ts>, "pieces"_a, "labels"_a,
         nb::arg("source").noconvert(), "separator"_a.none(), nb::arg("out").noconvert(),
         "Write the label of each token of packed rows; otherwise as `write_packed_values`."),
   ...);
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
        "Return the rows of a window of documents; otherwise as `count_packed_rows`.\n\n"
        "Returns:\n"
        "    The first piece of each row, then the number of pieces; and of each piece its index\n"
        "    in `numbers`, its first token in the document and its number of tokens.");

  nb::enum_<Labels>(m, "Labels", "Which token is the label of a token.")
      .value("same", Labels::same, "The token itself.")
      .value("next", Labels::next, "The next token of its document.");
  m.def(
      "write_packed_values", &bind_write_values, "pieces"_a, "source"_a, "padding"_a,
      "separator"_a.none(), nb::arg("out").noconvert(),
      "Write the values of packed rows.\n\n"
      "Args:\n"
      "    pieces: Of each piece its first token in the rows; the first token of its document in\n"
      "        `source` and the document's number of tokens; and the piece's first token in the\n"
      "        document and its number of tokens.\n"
      "    source: Values of the documents, as bytes.\n"
      "    padding: Bytes of one value.\n"
      "    separator: Bytes of the value after a document; None repeats its last value.\n"
      "    out: Values of the rows, as bytes.");
  m.def("write_packed_marks", &bind_write_marks, "pieces"_a, "length"_a, "continues"_a,
        nb::arg("segments").noconvert(), nb::arg("positions").noconvert(),
        "Write the segment and the position of each token of packed rows.\n\n"
        "Args:\n"
        "    pieces: As in `write_packed_values`.\n"
        "    length: Length of a row.\n"
        "    continues: Whether positions are those in the document, not in the piece.\n"
        "    segments: Segments to write.\n"
        "    positions: Positions to write.");
  def_write_labels<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                   std::uint32_t, std::int64_t>(m);
}

}  // namespace tio
