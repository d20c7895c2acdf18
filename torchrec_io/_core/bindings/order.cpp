#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "order/lane_permutation.h"
#include "order/permutation.h"
#include "order/selection.h"

namespace tio {
namespace {

// ---- permutations ----

template <class Order>
NumpyVector<std::int64_t> apply_order(const Numbers& positions, std::uint64_t size, Order order) {
  std::vector<std::int64_t> out(positions.size());
  bool is_inside = false;
  {
    const ReleasedGil unlocked(positions.size() >= kManyNumbers);
    std::copy_n(positions.data(), out.size(), out.data());
    // Signed and unsigned integers may alias. Negative positions become huge ones.
    const std::span values(reinterpret_cast<std::uint64_t*>(out.data()), out.size());
    is_inside = std::all_of(values.begin(), values.end(), [&](auto v) { return v < size; });
    if (is_inside) order.apply(values);
  }
  if (!is_inside) throw nb::index_error("positions must be at least 0 and less than size");
  return to_numpy(std::move(out));
}

void check_positive(std::uint64_t value, const char* name) {
  if (value != 0 && value <= INT64_MAX) return;
  throw nb::value_error((std::string(name) + " must be positive, got " +
                         std::to_string(static_cast<std::int64_t>(value)))
                            .c_str());
}

NumpyVector<std::int64_t> bind_permute(const Numbers& positions, std::uint64_t size,
                                       std::uint64_t key) {
  check_positive(size, "size");
  return apply_order(positions, size, Permutation(size, key));
}

struct InversePermutation {
  Permutation order;

  void apply(std::span<std::uint64_t> values) const {
    for (auto& value : values) value = order.inverse(value);
  }
};

NumpyVector<std::int64_t> bind_inverse_permute(const Numbers& values, std::uint64_t size,
                                               std::uint64_t key) {
  check_positive(size, "size");
  return apply_order(values, size, InversePermutation{Permutation(size, key)});
}

NumpyVector<std::int64_t> bind_window_permute(const Numbers& positions, std::uint64_t size,
                                              std::uint64_t window, std::uint64_t key) {
  check_positive(size, "size");
  check_positive(window, "window");
  return apply_order(positions, size, WindowPermutation(size, window, key));
}

NumpyVector<std::int64_t> bind_block_permute(const Numbers& positions, std::uint64_t size,
                                             std::uint64_t block, std::uint64_t window,
                                             std::uint64_t key) {
  check_positive(size, "size");
  check_positive(block, "block");
  check_positive(window, "window");
  return apply_order(positions, size, BlockPermutation(size, block, window, key));
}

NumpyVector<std::int64_t> bind_lane_permute(const Numbers& positions, std::uint64_t size,
                                            std::uint64_t block, std::uint64_t window,
                                            std::uint64_t lanes, std::uint64_t key) {
  check_positive(size, "size");
  check_positive(block, "block");
  check_positive(window, "window");
  check_positive(lanes, "lanes");
  return apply_order(positions, size, LanePermutation(size, block, window, lanes, key));
}

// ---- sets of numbers ----

using Words = Vector<std::uint64_t>;

NumpyVector<std::int64_t> bind_count_bits(const Words& words) {
  std::vector<std::int64_t> counts;
  {
    const ReleasedGil unlocked;
    counts = count_bits(span_of(words));
  }
  return to_numpy(std::move(counts));
}

using Query = bool (BitSet::*)(std::span<const std::int64_t>, std::span<std::int64_t>) const;

template <Query kQuery>
NumpyVector<std::int64_t> query_bits(const Words& words, const Numbers& counts,
                                     const Numbers& arguments) {
  const auto set = BitSet::open(span_of(words), span_of(counts));
  if (!set) throw nb::value_error("counts must be the result of count_bits for these words");
  std::vector<std::int64_t> out(arguments.size());
  bool is_inside = false;
  {
    const ReleasedGil unlocked(arguments.size() >= kManyNumbers);
    is_inside = ((*set).*kQuery)(span_of(arguments), out);
  }
  if (!is_inside) throw nb::index_error("a position or number lies outside of the set");
  return to_numpy(std::move(out));
}

}  // namespace

void bind_order(nb::module_& m) {
  m.def("permute", &bind_permute, "positions"_a, "size"_a, "key"_a,
        "Return the values at `positions` of a keyed uniform permutation of 0..size-1.");
  m.def("inverse_permute", &bind_inverse_permute, "values"_a, "size"_a, "key"_a,
        "Return the positions of `values` in a keyed uniform permutation of 0..size-1.");
  m.def(
      "window_permute", &bind_window_permute, "positions"_a, "size"_a, "window"_a, "key"_a,
      "Return the values at `positions` of a permutation of 0..size-1 that moves no value by more\n"
      "than `window`.");
  m.def("block_permute", &bind_block_permute, "positions"_a, "size"_a, "block"_a, "window"_a,
        "key"_a,
        "Return the values at `positions` of a permutation of 0..size-1 that permutes blocks of\n"
        "`block` values, and then each `window` positions.");
  m.def("lane_permute", &bind_lane_permute, "positions"_a, "size"_a, "block"_a, "window"_a,
        "lanes"_a, "key"_a,
        "Return the values at `positions` of a permutation of 0..size-1 that takes values of all\n"
        "`lanes` in turn. Blocks of `block` values and pieces of the rest are assigned to lanes,\n"
        "and each `window` values of a lane are permuted.");

  m.def("count_bits", &bind_count_bits, "words"_a,
        "Return the number of set bits before each 512 bits of `words`, and in all of them.");
  m.def("select_bits", &query_bits<&BitSet::select>, "words"_a, "counts"_a, "positions"_a,
        "Return the numbers of the set bits at `positions` among all set bits.\n\n"
        "Args:\n"
        "    words: Set of numbers; number i is bit i % 64 of word i // 64.\n"
        "    counts: Result of `count_bits` for the words.\n"
        "    positions: Positions among the set bits, from 0.");
  m.def("count_bits_below", &query_bits<&BitSet::count_below>, "words"_a, "counts"_a, "numbers"_a,
        "Return the number of set bits before each of `numbers`; otherwise as `select_bits`.");
}

}  // namespace tio
