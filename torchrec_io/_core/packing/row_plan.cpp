#include "packing/row_plan.h"

#include <algorithm>
#include <utility>

namespace tio {

void RowPlan::add_piece(std::int64_t document, std::int64_t begin, std::int64_t size) {
  documents.push_back(document);
  begins.push_back(begin);
  sizes.push_back(size);
}

std::optional<RowPlan> RowPlan::take(std::span<const std::int64_t> taken) const {
  RowPlan plan;
  plan.length = length;
  plan.row_begins.reserve(taken.size() + 1);
  // Pairs of a document here and its index in the new plan: few, so they are searched from the end.
  std::vector<std::pair<std::int64_t, std::int64_t>> split;
  const auto exists = [&](std::int64_t row) {
    return row >= 0 && static_cast<std::uint64_t>(row) < rows();
  };
  if (!std::ranges::all_of(taken, exists)) return std::nullopt;
  const bool has_lone_separator = std::ranges::any_of(taken, [&](std::int64_t row) {
    const auto first = static_cast<std::size_t>(row_begins[static_cast<std::size_t>(row)]);
    const auto last = static_cast<std::size_t>(row_begins[static_cast<std::size_t>(row) + 1]);
    for (std::size_t i = first; i < last; ++i) {
      if (begins[i] >= lengths[static_cast<std::size_t>(documents[i])]) return true;
    }
    return false;
  });
  for (const std::int64_t row : taken) {
    const auto first = static_cast<std::size_t>(row_begins[static_cast<std::size_t>(row)]);
    const auto last = static_cast<std::size_t>(row_begins[static_cast<std::size_t>(row) + 1]);
    for (std::size_t i = first; i < last; ++i) {
      const std::int64_t document = documents[i];
      const auto at = static_cast<std::size_t>(document);
      std::int64_t index = static_cast<std::int64_t>(plan.numbers.size());
      // Only the pieces of a document that is in several pieces may come again. One of them may be
      // a separator alone, after a piece with all tokens.
      const bool is_whole = !has_lone_separator && begins[i] == 0 && sizes[i] >= lengths[at];
      const auto known =
          is_whole ? split.end() : std::find_if(split.begin(), split.end(), [&](const auto& each) {
            return each.first == document;
          });
      if (known != split.end()) {
        index = known->second;
      } else {
        plan.numbers.push_back(numbers[at]);
        plan.lengths.push_back(lengths[at]);
        if (!is_whole) split.emplace_back(document, index);
      }
      plan.add_piece(index, begins[i], sizes[i]);
    }
    plan.end_row();
  }
  return plan;
}

Int64s RowPlan::first_numbers() const {
  Int64s found;
  found.reserve(rows());
  for (std::size_t row = 0; row < rows(); ++row) {
    const auto piece = static_cast<std::size_t>(row_begins[row]);
    found.push_back(numbers[static_cast<std::size_t>(documents[piece])]);
  }
  return found;
}

void RowPlan::append(const RowPlan& other, std::int64_t base) {
  const auto before = static_cast<std::int64_t>(numbers.size());
  const auto pieces = static_cast<std::int64_t>(documents.size());
  const auto add = [](Int64s& to, const Int64s& from, std::int64_t shift, std::size_t skip = 0) {
    for (std::size_t i = skip; i < from.size(); ++i) to.push_back(from[i] + shift);
  };
  add(numbers, other.numbers, base);
  add(lengths, other.lengths, 0);
  add(row_begins, other.row_begins, pieces, 1);
  add(documents, other.documents, before);
  add(begins, other.begins, 0);
  add(sizes, other.sizes, 0);
  length = other.length;
}

std::optional<RowPlan> cut_rows(const JoinedDocuments& joined, std::int64_t begin, std::int64_t end,
                                std::int64_t length) {
  const auto& [numbers, lengths, starts] = joined;
  const bool is_valid = numbers.size() == starts.size() && lengths.size() == starts.size() &&
                        begin >= 0 && length >= 1 && !starts.empty() && starts.front() <= begin;
  if (!is_valid) return std::nullopt;
  RowPlan plan;
  auto next = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), begin) -
                                       starts.begin());
  std::int64_t row_end = begin;
  for (std::int64_t at = begin; at < end;) {
    if (at == row_end) {
      if (at != begin) plan.end_row();
      row_end = length < end - at ? at + length : end;
    }
    const bool is_last = next == starts.size();
    if (starts[next - 1] < 0 || starts[next - 1] > at || (!is_last && starts[next] < at)) {
      return std::nullopt;
    }
    if (plan.documents.empty() || starts[next - 1] == at) {
      plan.numbers.push_back(numbers[next - 1]);
      plan.lengths.push_back(lengths[next - 1]);
    }
    const std::int64_t piece_end = is_last ? row_end : std::min(row_end, starts[next]);
    plan.add_piece(static_cast<std::int64_t>(plan.numbers.size()) - 1, at - starts[next - 1],
                   piece_end - at);
    at = piece_end;
    if (!is_last && starts[next] <= at) ++next;
  }
  if (begin < end) plan.end_row();
  return plan;
}

}  // namespace tio
