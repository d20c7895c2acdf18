// Packing: sets of levels, counted and planned rows, cut rows, and what a writer refuses. The rows
// themselves are compared with a model in Python.
#include <set>

#include "check.h"
#include "documents.h"
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

void test_repacked_rows() {
  for (const std::size_t length : {1, 3, 8, 21}) {
    for (std::uint64_t round = 0; round < 40; ++round) {
      Int64s lengths(1 + mix(round) % 40);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        lengths[i] = static_cast<std::int64_t>(mix(round * 1000 + i) % 60);
      }
      BestFit packer(7);
      RowPlan plan = packed(packer, lengths);
      std::size_t kept = 0;
      for (const std::size_t after : {length, std::size_t{5}}) {
        kept += mix(round) % (plan.rows() - kept + 1);
        const RowPlan repacked = BestFit(after).repack(plan, kept);
        for (const Int64s& document : count_tokens(repacked, lengths)) {
          CHECK_EQ_IN(document, Int64s(document.size(), 1), round);
        }
        for (std::size_t row = 0; row < repacked.rows(); ++row) {
          std::int64_t used = 0;
          for (auto i = repacked.row_begins[row]; i < repacked.row_begins[row + 1]; ++i) {
            used += repacked.sizes[i];
          }
          const std::size_t most = row < kept ? 21 : after;
          CHECK_EQ_IN(used > 0 && used <= static_cast<std::int64_t>(most), true, round);
        }
        const auto end = plan.row_begins.begin() + static_cast<std::ptrdiff_t>(kept) + 1;
        CHECK_EQ_IN(Int64s(repacked.row_begins.begin(),
                           repacked.row_begins.begin() + static_cast<std::ptrdiff_t>(kept) + 1),
                    Int64s(plan.row_begins.begin(), end), round);
        plan = repacked;
      }
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
}

using Small = std::vector<std::int32_t>;

// Returns documents of these tokens.
LocatedBatch documents_of(const std::vector<Int64s>& documents) {
  std::vector<std::string> records;
  for (const Int64s& tokens : documents) records.push_back(example(ints_entry("t", tokens)));
  return located(records, ragged("t", Dtype::int64));
}

// One row with a document of 3 tokens and a separator, then one of 2 that may be lost.
RowPlan two_documents() {
  RowPlan plan;
  plan.numbers = {8, 9};
  plan.lengths = {3, 2};
  plan.add_piece(0, 0, 4);
  plan.add_piece(1, 0, 2);
  plan.end_row();
  return plan;
}

void test_writer() {
  const RowPlan plan = two_documents();
  const LocatedBatch documents = documents_of({{1, 2, 3}, {4, 5}});
  for (const bool is_lost : {false, true}) {
    const Int64s sources{0, is_lost ? -1 : 1};
    const auto writer = RowWriter::open(plan, 8, 2, sources);
    RowArena arena(8, Labels::next, -1, 7);
    CHECK(writer->fits(documents, arena.format, arena.bytes()));
    CHECK(writer->write(documents, arena.format, arena.bytes()));
    if (is_lost) {
      CHECK_EQ(arena.tokens(), (Int64s{1, 2, 3, 7, -1, -1, -1, -1}));
      CHECK_EQ(arena.segments(), (Small{1, 1, 1, 1, 0, 0, 0, 0}));
      CHECK_EQ(writer->segment_lengths, (Small{4, 4}));
    } else {
      CHECK_EQ(arena.tokens(), (Int64s{1, 2, 3, 7, 4, 5, -1, -1}));
      CHECK_EQ(arena.segments(), (Small{1, 1, 1, 1, 2, 2, 0, 0}));
      CHECK_EQ(arena.positions(), (Small{0, 1, 2, 3, 0, 1, 0, 0}));
      CHECK_EQ(writer->segment_lengths, (Small{4, 2, 2}));
      // The second document goes on with its separator.
      CHECK_EQ(arena.labels(), (Int64s{2, 3, 7, -100, 5, 7, -100, -100}));
    }
  }
}

void test_plans_that_do_not_fit() {
  RowPlan plan = two_documents();
  const auto opens = [&plan](std::size_t length, std::size_t records, const Int64s& sources) {
    return RowWriter::open(plan, length, records, sources).has_value();
  };
  CHECK_EQ(opens(8, 2, {0, 1}), true);
  CHECK_EQ(opens(5, 2, {0, 1}), false);
  CHECK_EQ(opens(0, 2, {0, 1}), false);
  CHECK_EQ(opens(8, 2, {0}), false);
  CHECK_EQ(opens(8, 2, {0, 2}), false);
  CHECK_EQ(RowWriter::open(plan, 8, 1, std::nullopt).has_value(), false);
  plan.sizes[1] = 4;  // more than the document and a separator
  CHECK_EQ(opens(8, 2, {0, 1}), false);
}

void test_formats_that_do_not_fit() {
  const auto writer = RowWriter::open(two_documents(), 8, 2, std::nullopt);
  const LocatedBatch documents = documents_of({{1, 2, 3}, {4, 5}});
  RowArena arena(8, Labels::next, -1, 7);
  const RowFormat valid = arena.format;
  const auto fits = [&](auto change) {
    RowFormat format = valid;
    change(format);
    return writer->fits(documents, format, arena.bytes());
  };
  CHECK_EQ(fits([](RowFormat&) {}), true);
  CHECK_EQ(fits([](RowFormat& format) { format.columns.clear(); }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].feature = 1; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].at = 4; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].at = 136; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].at = SIZE_MAX - 7; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].padding.pop_back(); }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.columns[0].separator->pop_back(); }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.labels_at = 136; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.segments_at = 164; }), false);
  CHECK_EQ(fits([](RowFormat& format) { format.positions_at = 162; }), false);
  CHECK_EQ(writer->fits(documents_of({{1}}), valid, arena.bytes()), false);
  const LocatedBatch failed = located({"\x0a", "\x0a"}, ragged("t", Dtype::int64));
  CHECK_EQ(writer->fits(failed, valid, arena.bytes()), false);
}

// A document that is cut into pieces is the same in any rows, and so are its errors.
void test_pieces() {
  constexpr std::int64_t kLength = 9;
  const std::string ten = std::string(9, '\xff') + "\x01";
  const std::string bad = std::string(10, '\xff') + "\x01";
  const std::string cut = "\x80";
  const auto record = [](const std::string& payload) {
    return example(entry("t", feature(Kind::ints, delimited(1, payload))));
  };
  const std::string good =
      joined_varints({1, 300, 3, 4, 5}) + ten + joined_varints({7, 8, 1 << 20});
  const Int64s tokens{1, 300, 3, 4, 5, -1, 7, 8, 1 << 20};
  const std::string begin = joined_varints({1, 300, 3, 4, 5, 6});
  const std::vector<std::string> records{
      record(good),
      record(begin + bad + joined_varints({8, 9})),
      record(begin + joined_varints({7, 8}) + cut),
      record(good + varint(1)),
      record(begin),
      example(entry("t", feature(Kind::ints, unpacked_ints(tokens)))),
      example(entry("t", feature(Kind::ints, packed_ints({1, 300, 3, 4}) + unpacked_ints({5}) +
                                                 packed_ints({-1, 7, 8, 1 << 20}))))};
  for (std::size_t number = 0; number < records.size(); ++number) {
    const LocatedBatch documents = located({records[number]}, ragged("t", Dtype::int64));
    for (std::int64_t first = 0; first < kLength; ++first) {
      for (std::int64_t size = 1; size <= kLength - first; ++size) {
        RowPlan plan;
        plan.numbers = {0};
        plan.lengths = {kLength};
        plan.add_piece(0, first, size);
        plan.end_row();
        const auto writer = RowWriter::open(plan, kLength, 1, std::nullopt);
        RowArena arena(kLength, Labels::next, -9, 0);
        arena.format.separator = std::nullopt;
        CHECK(writer->fits(documents, arena.format, arena.bytes()));
        const bool is_valid = number == 0 || number > 4;
        CHECK_EQ_IN(writer->write(documents, arena.format, arena.bytes()), is_valid, number);
        if (!is_valid) continue;
        const Int64s found = arena.tokens(), labels = arena.labels();
        for (std::int64_t i = 0; i < kLength; ++i) {
          CHECK_EQ_IN(found[i], i < size ? tokens[first + i] : -9, number);
          const bool has_next = i < size && first + i + 1 < kLength;
          CHECK_EQ_IN(labels[i], has_next ? tokens[first + i + 1] : kNoLabel, number);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_level_set();
  tio::test::test_each_token_once();
  tio::test::test_repacked_rows();
  tio::test::test_cut_rows();
  tio::test::test_facts_of_plans();
  tio::test::test_writer();
  tio::test::test_plans_that_do_not_fit();
  tio::test::test_formats_that_do_not_fit();
  tio::test::test_pieces();
  return tio::test::finish();
}
