// Packing: sets of levels, counted and planned rows, cut rows, and what a writer refuses. The rows
// themselves are compared with a model in Python.
#include <cstring>
#include <set>

#include "check.h"
#include "order/permutation.h"
#include "packing/best_fit.h"
#include "packing/row_plan.h"
#include "packing/row_writer.h"

namespace tio::test {
namespace {

void test_level_set() {
  for (const std::size_t size : {1, 2, 63, 64, 65, 4096, 4097, 300'000}) {
    LevelSet set(size);
    std::set<std::size_t> model;
    for (std::uint64_t step = 0; step < 2000; ++step) {
      const std::size_t number = mix(step + size) % size;
      if (mix(step) % 3 == 0) {
        set.erase(number);
        model.erase(number);
      } else {
        set.insert(number);
        model.insert(number);
      }
      const std::size_t least = mix(step + 7) % (size + 2);
      const auto next = model.lower_bound(least);
      CHECK_EQ_IN(set.next(least), next == model.end() ? LevelSet::kNone : *next, step);
    }
  }
}

// Returns the plan with numbers and lengths of its documents.
RowPlan packed(BestFit& packer, const Int64s& lengths) {
  RowPlan plan = packer.pack(lengths);
  for (std::size_t i = 0; i < lengths.size(); ++i) plan.numbers.push_back(static_cast<int>(i));
  plan.lengths = lengths;
  return plan;
}

// Counts each token of the documents that the rows of a plan have.
std::vector<Int64s> count_tokens(const RowPlan& plan, const Int64s& lengths) {
  std::vector<Int64s> counts;
  for (const std::int64_t length : lengths) counts.emplace_back(length, 0);
  for (std::size_t i = 0; i < plan.documents.size(); ++i) {
    Int64s& document = counts[plan.numbers[plan.documents[i]]];
    for (std::int64_t at = 0; at < plan.sizes[i]; ++at) ++document[plan.begins[i] + at];
  }
  return counts;
}

void test_each_token_once() {
  for (const std::size_t length : {1, 2, 7, 64, 100, 5000}) {
    BestFit packer(length);
    for (std::uint64_t round = 0; round < 40; ++round) {
      Int64s lengths(mix(round) % 200);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        lengths[i] = static_cast<std::int64_t>(mix(round * 1000 + i) % (round % 2 == 0 ? 30 : 300));
      }
      const RowPlan plan = packed(packer, lengths);
      CHECK_EQ_IN(static_cast<std::int64_t>(plan.rows()), packer.count(lengths), round);
      for (const Int64s& document : count_tokens(plan, lengths)) {
        CHECK_EQ_IN(document, Int64s(document.size(), 1), round);
      }
      for (std::size_t row = 0; row < plan.rows(); ++row) {
        std::int64_t used = 0;
        for (auto i = plan.row_begins[row]; i < plan.row_begins[row + 1]; ++i) {
          used += plan.sizes[i];
        }
        CHECK_EQ_IN(used > 0 && used <= static_cast<std::int64_t>(length), true, round);
      }
      // All rows taken, in two parts.
      Int64s rows(plan.rows());
      for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int>(row);
      const std::span<const std::int64_t> all(rows);
      auto taken = plan.take(all.first(rows.size() / 2));
      taken->append(*plan.take(all.subspan(rows.size() / 2)));
      CHECK_EQ_IN(taken->row_begins, plan.row_begins, round);
      CHECK_EQ_IN(taken->sizes, plan.sizes, round);
      CHECK_EQ_IN(count_tokens(*taken, lengths), count_tokens(plan, lengths), round);
    }
  }
}

void test_cut_rows() {
  const Int64s numbers{5, 6, 7}, lengths{3, 9, 2}, starts{0, 3, 12};
  const auto plan = cut_rows({numbers, lengths, starts}, 4, 14, 4);
  CHECK_EQ(plan->numbers, (Int64s{6, 7}));
  CHECK_EQ(plan->row_begins, (Int64s{0, 1, 2, 3}));
  CHECK_EQ(plan->documents, (Int64s{0, 0, 1}));
  CHECK_EQ(plan->begins, (Int64s{1, 5, 0}));
  CHECK_EQ(plan->sizes, (Int64s{4, 4, 2}));
  CHECK_EQ(cut_rows({numbers, lengths, starts}, 4, 4, 4)->rows(), 0U);
  CHECK_EQ(cut_rows({numbers, lengths, starts}, -1, 4, 4).has_value(), false);
  CHECK_EQ(cut_rows({numbers, lengths, starts}, 0, 4, 0).has_value(), false);
  CHECK_EQ(cut_rows({numbers, lengths, Int64s{1, 3, 12}}, 0, 4, 4).has_value(), false);
  CHECK_EQ(cut_rows({numbers, lengths, Int64s{0, 3}}, 0, 4, 4).has_value(), false);
  CHECK_EQ(cut_rows({{}, {}, {}}, 0, 4, 4).has_value(), false);
  for (const std::int64_t wrong : {INT64_MIN, std::int64_t{-1}, std::int64_t{2}}) {
    CHECK_EQ(cut_rows({numbers, lengths, Int64s{0, 3, wrong}}, 0, 14, 4).has_value(), false);
  }
  CHECK_EQ(cut_rows({numbers, lengths, Int64s{-1, 3, 12}}, 0, 14, 4).has_value(), false);
}

void test_facts_of_plans() {
  RowPlan plan;
  plan.numbers = {8, 9};
  plan.lengths = {3, 2};
  plan.add_piece(1, 0, 2);
  plan.end_row();
  plan.add_piece(0, 0, 3);
  plan.end_row();
  CHECK_EQ(plan.first_numbers(), (Int64s{9, 8}));
  CHECK_EQ(plan.has_lengths(Int64s{5, 0}, Int64s{8, 2}), true);
  CHECK_EQ(plan.has_lengths(Int64s{5, 0}, Int64s{8, 3}), false);
  CHECK_EQ(plan.has_lengths(Int64s{5}, Int64s{8}), false);
  CHECK_EQ(plan.has_lengths(Int64s{8, 0}, Int64s{5, 2}), false);
  CHECK_EQ(plan.has_lengths(Int64s{INT64_MIN, 0}, Int64s{INT64_MAX, 2}), false);
}

// One row with a document of 3 tokens and a separator, then one of 2 that may be lost.
void test_writer() {
  RowPlan plan;
  plan.numbers = {8, 9};
  plan.lengths = {3, 2};
  plan.add_piece(0, 0, 4);
  plan.add_piece(1, 0, 2);
  plan.end_row();
  const Int64s starts{0, 3}, source{1, 2, 3, 4, 5};
  const auto bytes = std::as_bytes(std::span(source));
  const std::int64_t padding = -1, separator = 7;
  const auto item = [](const std::int64_t& value) { return std::as_bytes(std::span(&value, 1)); };
  for (const bool is_lost : {false, true}) {
    const Int64s sources{0, is_lost ? -1 : 1};
    const auto writer = RowWriter::open(plan, 8, starts, sources);
    Int64s values(8), labels(8);
    std::vector<std::int32_t> segments(8), positions(8);
    writer->write_values(bytes.first(writer->needed() * 8), item(padding), item(separator),
                         std::as_writable_bytes(std::span(values)));
    writer->write_marks(false, segments, positions);
    writer->write_labels<std::int64_t>(Labels::next, source, separator, labels);
    using Small = std::vector<std::int32_t>;
    if (is_lost) {
      CHECK_EQ(values, (Int64s{1, 2, 3, 7, -1, -1, -1, -1}));
      CHECK_EQ(segments, (Small{1, 1, 1, 1, 0, 0, 0, 0}));
      CHECK_EQ(writer->segment_lengths, (Small{4, 4}));
      CHECK_EQ(writer->needed(), 3U);
    } else {
      CHECK_EQ(values, (Int64s{1, 2, 3, 7, 4, 5, -1, -1}));
      CHECK_EQ(segments, (Small{1, 1, 1, 1, 2, 2, 0, 0}));
      CHECK_EQ(positions, (Small{0, 1, 2, 3, 0, 1, 0, 0}));
      CHECK_EQ(writer->segment_lengths, (Small{4, 2, 2}));
      // The second document goes on with its separator.
      CHECK_EQ(labels, (Int64s{2, 3, 7, -100, 5, 7, -100, -100}));
    }
  }
  CHECK_EQ(RowWriter::open(plan, 5, starts, std::nullopt).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 0, starts, std::nullopt).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 8, Int64s{0}, std::nullopt).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 8, Int64s{0, INT64_MAX}, std::nullopt).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 8, Int64s{0, -1}, std::nullopt).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 8, starts, Int64s{0}).has_value(), false);
  CHECK_EQ(RowWriter::open(plan, 8, starts, Int64s{0, 2}).has_value(), false);
  plan.sizes[1] = 4;  // more than the document and a separator
  CHECK_EQ(RowWriter::open(plan, 8, starts, std::nullopt).has_value(), false);
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_level_set();
  tio::test::test_each_token_once();
  tio::test::test_cut_rows();
  tio::test::test_facts_of_plans();
  tio::test::test_writer();
  return tio::test::finish();
}
