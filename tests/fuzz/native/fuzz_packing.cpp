// Packs documents of any lengths into rows, or cuts rows from documents that may lie about where
// they begin; takes some of the rows, and writes them from records that may be others, or of
// another length. Rows that are written are compared with a plain model, token by token.
//
// Input: options, length of a row, number of documents, then numbers: a byte, or an extreme value.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "documents.h"
#include "packing/best_fit.h"
#include "packing/row_plan.h"
#include "packing/row_writer.h"
#include "require.h"

namespace tio::fuzz {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): helpers of the native tests

constexpr std::int64_t kExtremes[] = {std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max(),
                                      -1,
                                      std::int64_t{1} << 31,
                                      (std::int64_t{1} << 31) - 1,
                                      std::int64_t{1} << 62,
                                      1000,
                                      300};
constexpr std::int64_t kSeparator = 7;
constexpr std::int64_t kPadding = -1;
// Rows that are cut are this many tokens at most.
constexpr std::int64_t kMostTokens = 4096;

class Numbers {
 public:
  explicit Numbers(std::span<const std::uint8_t> data) : data_(data) {}

  std::uint8_t byte() {
    if (data_.empty()) return 0;
    const std::uint8_t value = data_.front();
    data_ = data_.subspan(1);
    return value;
  }

  std::int64_t number() {
    const std::uint8_t value = byte();
    return value < 248 ? value : kExtremes[value - 248];
  }

  Int64s several(std::size_t count) {
    Int64s found;
    for (std::size_t i = 0; i < count; ++i) found.push_back(number());
    return found;
  }

 private:
  std::span<const std::uint8_t> data_;
};

// Where documents begin if each follows the one before.
Int64s starts_of(const Int64s& lengths, std::int64_t extra) {
  Int64s starts;
  std::int64_t at = 0;
  for (const std::int64_t length : lengths) {
    starts.push_back(at);
    at += length + extra;
  }
  return starts;
}

// Each token of each document is in one row.
void require_each_token_once(const RowPlan& plan, const Int64s& sizes) {
  std::vector<Int64s> counts;
  for (const std::int64_t size : sizes) counts.emplace_back(static_cast<std::size_t>(size), 0);
  for (std::size_t i = 0; i < plan.documents.size(); ++i) {
    Int64s& document = counts.at(static_cast<std::size_t>(plan.documents[i]));
    for (std::int64_t at = 0; at < plan.sizes[i]; ++at) {
      ++document.at(static_cast<std::size_t>(plan.begins[i] + at));
    }
  }
  for (const Int64s& document : counts) {
    require(document == Int64s(document.size(), 1), "a token is lost or comes twice");
  }
}

RowPlan pack(Numbers& input, std::size_t length, std::size_t count, std::int64_t extra) {
  Int64s lengths;
  Int64s sizes;
  for (const std::int64_t each : input.several(count)) {
    lengths.push_back(each < 0 || each > 1000 ? 0 : each);
    sizes.push_back(lengths.back() == 0 ? 0 : lengths.back() + extra);
  }
  BestFit packer(length);
  const std::int64_t rows = packer.count(sizes);
  RowPlan plan = packer.pack(sizes);
  require(static_cast<std::int64_t>(plan.rows()) == rows, "another number of rows was counted");
  require_each_token_once(plan, sizes);
  plan.numbers = starts_of(Int64s(count, 1), 0);
  plan.lengths = lengths;
  return plan;
}

std::optional<RowPlan> cut(Numbers& input, std::int64_t length, std::size_t count,
                           std::int64_t extra, bool is_valid) {
  const Int64s lengths = input.several(count);
  const bool fits = std::ranges::all_of(lengths, [](auto each) { return 0 < each && each < 1000; });
  const Int64s starts = is_valid && fits ? starts_of(lengths, extra) : input.several(count);
  const std::int64_t begin = input.number();
  const std::int64_t most = std::min(begin, std::numeric_limits<std::int64_t>::max() - kMostTokens);
  return cut_rows({lengths, lengths, starts}, begin, most + 16 * input.byte(), length);
}

// A token of the model: its value, and the label that it has under each rule.
struct Token {
  std::int64_t value = kPadding;
  std::int64_t same = kNoLabel;
  std::int64_t next = kNoLabel;
  std::int32_t segment = 0;
  std::int32_t position = 0;
};

// Returns a token of a record. Its varint takes 1 to 10 bytes.
std::int64_t token_of(std::int64_t record, std::int64_t at) {
  return at % 11 == 10 ? -at : (record + at) % 100 << at % 5 * 14;
}

std::vector<Token> model(const RowPlan& plan, std::size_t length,
                         const std::optional<Int64s>& sources, bool continues) {
  std::vector<Token> tokens(plan.rows() * length);
  for (std::size_t row = 0; row < plan.rows(); ++row) {
    Token* to = tokens.data() + row * length;
    std::int32_t segment = 0;
    for (auto i = plan.row_begins[row]; i < plan.row_begins[row + 1]; ++i) {
      const auto document = static_cast<std::size_t>(plan.documents[i]);
      const auto record = sources ? (*sources)[document] : static_cast<std::int64_t>(document);
      if (record < 0) continue;
      const std::int64_t whole = plan.lengths[document];
      const auto value = [&](std::int64_t at) {
        return at < whole ? token_of(record, at) : kSeparator;
      };
      ++segment;
      for (std::int64_t at = plan.begins[i]; at < plan.begins[i] + plan.sizes[i]; ++at, ++to) {
        const bool is_first = at == plan.begins[i];
        *to = {value(at), is_first ? kNoLabel : value(at), at < whole ? value(at + 1) : kNoLabel,
               segment, static_cast<std::int32_t>(continues ? at : at - plan.begins[i])};
      }
    }
  }
  return tokens;
}

// Returns a record of some tokens, in one list, or in several chunks.
std::string record_of(std::int64_t record, std::int64_t length, bool is_chunked) {
  Int64s tokens;
  for (std::int64_t at = 0; at < length; ++at) tokens.push_back(token_of(record, at));
  const auto half = tokens.begin() + length / 2;
  const std::string list =
      is_chunked ? packed_ints({tokens.begin(), half}) + unpacked_ints({half, tokens.end()})
                 : packed_ints(tokens);
  return example(entry("t", feature(Kind::ints, list)));
}

// Whether each record that a plan needs has as many tokens as planned.
bool is_as_planned(const RowPlan& plan, const std::optional<Int64s>& sources,
                   const Int64s& lengths) {
  return std::ranges::all_of(plan.documents, [&](std::int64_t document) {
    const auto at = static_cast<std::size_t>(document);
    const std::int64_t record = sources ? (*sources)[at] : document;
    return record < 0 || lengths.at(static_cast<std::size_t>(record)) == plan.lengths[at];
  });
}

void write(const RowPlan& plan, std::size_t length, const Int64s& lengths,
           const std::optional<Int64s>& sources, bool continues, bool is_chunked) {
  std::optional<std::span<const std::int64_t>> found;
  if (sources) found = *sources;
  const auto writer = RowWriter::open(plan, length, lengths.size(), found);
  if (!writer) return;
  std::vector<std::string> records;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    records.push_back(record_of(static_cast<std::int64_t>(i), lengths[i], is_chunked));
  }
  const LocatedBatch documents = located(records, ragged("t", Dtype::int64));
  const bool is_valid = is_as_planned(plan, sources, lengths);
  for (const Labels labels : {Labels::same, Labels::next}) {
    RowArena arena(plan.rows() * length, labels, kPadding, kSeparator);
    arena.format.continues = continues;
    require(writer->fits(documents, arena.format, arena.bytes()), "the rows do not fit");
    const bool is_good = writer->write(documents, arena.format, arena.bytes());
    require(is_good == is_valid, "a document of another length is taken, or one is refused");
    if (!is_good) return;
    const auto expected = model(plan, length, sources, continues);
    const auto tokens = arena.tokens(), found_labels = arena.labels();
    const auto segments = arena.segments(), positions = arena.positions();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Token& token = expected[i];
      require(tokens[i] == token.value, "another token");
      require(found_labels[i] == (labels == Labels::same ? token.same : token.next),
              "another label");
      require(segments[i] == token.segment && positions[i] == token.position,
              "another segment or position");
    }
  }
}

void check(Numbers input) {
  const std::uint8_t options = input.byte();
  const std::size_t length = std::size_t{input.byte()} + 1;
  const std::size_t count = input.byte() % 32;
  const std::int64_t extra = (options & 2) != 0 ? 1 : 0;
  std::optional<RowPlan> plan;
  if ((options & 1) != 0) {
    plan = pack(input, length, count, extra);
  } else {
    plan = cut(input, static_cast<std::int64_t>(length), count, extra, (options & 4) != 0);
  }
  if (!plan) return;
  if ((options & 8) != 0) {
    plan = plan->take(input.several(input.byte() % 8));
    if (!plan) return;
  }
  const std::size_t documents = plan->numbers.size();
  const bool is_other = (options & 16) != 0;
  Int64s lengths = is_other ? input.several(documents) : plan->lengths;
  for (std::int64_t& each : lengths) each = std::clamp<std::int64_t>(each, 0, 1000);
  std::optional<Int64s> sources;
  if ((options & 32) != 0) sources = input.several(documents);
  write(*plan, length, lengths, sources, (options & 64) != 0, (options & 128) != 0);
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(tio::fuzz::Numbers(std::span(data, size)));
  return 0;
}
