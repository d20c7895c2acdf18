// Bindings of sets of record numbers: check arguments, release the GIL, call, return.
#include <nanobind/nanobind.h>

#include <span>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "order/selection.h"

namespace tio {
namespace {

using Words = Vector<std::uint64_t>;
using Numbers = Vector<std::int64_t>;

NumpyVector<std::int64_t> bind_count_bits(const Words& words) {
  std::vector<std::int64_t> counts;
  {
    const nb::gil_scoped_release unlocked;
    counts = count_bits(span_of(words));
  }
  return to_numpy(std::move(counts));
}

using Question = bool (BitSet::*)(std::span<const std::int64_t>, std::span<std::int64_t>) const;

NumpyVector<std::int64_t> ask(const Words& words, const Numbers& counts, const Numbers& numbers,
                              Question question) {
  const auto set = BitSet::open(span_of(words), span_of(counts));
  if (!set) throw nb::value_error("the counts are not those of the words");
  std::vector<std::int64_t> out(numbers.size());
  bool inside = false;
  {
    const nb::gil_scoped_release unlocked;
    inside = ((*set).*question)(span_of(numbers), out);
  }
  if (!inside) throw nb::index_error("a number lies outside the set");
  return to_numpy(std::move(out));
}

NumpyVector<std::int64_t> bind_select_bits(const Words& words, const Numbers& counts,
                                           const Numbers& places) {
  return ask(words, counts, places, &BitSet::select);
}

NumpyVector<std::int64_t> bind_rank_bits(const Words& words, const Numbers& counts,
                                         const Numbers& numbers) {
  return ask(words, counts, numbers, &BitSet::rank);
}

}  // namespace

void bind_subset(nb::module_& module) {
  using namespace nb::literals;
  module.def("count_bits", &bind_count_bits, "words"_a,
             "How many bits are set before each 512 bits of `words`, and in all.");
  module.def("select_bits", &bind_select_bits, "words"_a, "counts"_a, "places"_a,
             "Numbers of the set bits that have so many set bits before them; `counts` are those\n"
             "of count_bits.");
  module.def("rank_bits", &bind_rank_bits, "words"_a, "counts"_a, "numbers"_a,
             "How many bits are set before each of the `numbers`.");
}

}  // namespace tio
