// Packs documents of any lengths into rows, or cuts rows from documents that may lie about where
// they begin; takes some of the rows, and writes them from documents that may lie elsewhere. Rows
// that are written are compared with a plain model, token by token.
//
// Input: options, length of a row, number of documents, then numbers: a byte, or an extreme value.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "packing/best_fit.h"
#include "packing/row_plan.h"
#include "packing/row_writer.h"
#include "require.h"

namespace tio::fuzz {
namespace {

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
// Rows that are cut are this many tokens at most, and so are documents that are written.
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
                           std::int64_t extra, bool is_sound) {
  const Int64s lengths = input.several(count);
  const bool fits = std::ranges::all_of(lengths, [](auto each) { return 0 < each && each < 1000; });
  const Int64s starts = is_sound && fits ? starts_of(lengths, extra) : input.several(count);
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

std::vector<Token> model(const RowPlan& plan, std::size_t length, const Int64s& starts,
                         const std::optional<Int64s>& sources, const Int64s& values,
                         bool continues) {
  std::vector<Token> tokens(plan.rows() * length);
  for (std::size_t row = 0; row < plan.rows(); ++row) {
    Token* to = tokens.data() + row * length;
    std::int32_t segment = 0;
    for (auto i = plan.row_begins[row]; i < plan.row_begins[row + 1]; ++i) {
      const auto document = static_cast<std::size_t>(plan.documents[i]);
      const auto source = sources ? (*sources)[document] : static_cast<std::int64_t>(document);
      if (source < 0) continue;
      const std::int64_t whole = plan.lengths[document];
      const auto value = [&](std::int64_t at) {
        return at < whole ? values.at(static_cast<std::size_t>(starts.at(source) + at))
                          : kSeparator;
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

Bytes item(const std::int64_t& value) { return std::as_bytes(std::span(&value, 1)); }

void write(const RowPlan& plan, std::size_t length, const Int64s& starts,
           const std::optional<Int64s>& sources, bool continues) {
  std::optional<std::span<const std::int64_t>> rows;
  if (sources) rows = *sources;
  const auto writer = RowWriter::open(plan, length, starts, rows);
  if (!writer || writer->needed() > kMostTokens) return;  // an arena is refused if it is smaller
  require(writer->total() == plan.rows() * length, "another number of tokens");
  Int64s values;
  for (std::size_t i = 0; i < writer->needed(); ++i) {
    values.push_back(static_cast<std::int64_t>(i) + 100);
  }
  Int64s found(writer->total()), same(writer->total()), next(writer->total());
  std::vector<std::int32_t> segments(writer->total()), positions(writer->total());
  writer->write_values(std::as_bytes(std::span(values)), item(kPadding), item(kSeparator),
                       std::as_writable_bytes(std::span(found)));
  writer->write_marks(continues, segments, positions);
  writer->write_labels<std::int64_t>(Labels::same, values, kSeparator, same);
  writer->write_labels<std::int64_t>(Labels::next, values, kSeparator, next);
  const auto expected = model(plan, length, starts, sources, values, continues);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    require(found[i] == expected[i].value, "another token");
    require(same[i] == expected[i].same && next[i] == expected[i].next, "another label");
    require(segments[i] == expected[i].segment && positions[i] == expected[i].position,
            "another segment or position");
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
  Int64s starts = (options & 16) != 0 ? input.several(documents) : starts_of(plan->lengths, 0);
  std::optional<Int64s> sources;
  if ((options & 32) != 0) sources = input.several(documents);
  write(*plan, length, starts, sources, (options & 64) != 0);
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(tio::fuzz::Numbers(std::span(data, size)));
  return 0;
}
