// Bindings of what reads and copies ranges: check arguments, release the GIL, call, return.
#include "bindings/ranges.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "records/ranges.h"

namespace tio {
namespace {

using Numbers = Vector<std::int64_t>;

auto bind_read_ranges(const std::vector<int>& fds, const std::vector<std::int64_t>& cuts,
                      const Matrix<std::int64_t>& rows, const WritableBuffer& buffer) {
  const std::vector<Range> ranges = to_ranges(rows);
  const MutableBytes target = writable_bytes(buffer);
  check_cuts(cuts, fds.size(), ranges.size());
  check_places(ranges, target);
  Reading reading;
  {
    const nb::gil_scoped_release unlocked;
    reading = read_ranges(fds, cuts, ranges, target);
  }
  if (reading.error > 0) {
    errno = reading.error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  const std::int64_t failed = reading.error < 0 ? static_cast<std::int64_t>(reading.failed) : -1;
  return std::make_tuple(failed, reading.waits);
}

void bind_advise_ranges(int fd, const Matrix<std::int64_t>& rows) {
  const std::vector<Range> ranges = to_ranges(rows);
  const nb::gil_scoped_release unlocked;
  advise_ranges(fd, ranges);
}

void bind_gather(const Buffer& source, const Matrix<std::int64_t>& rows,
                 const WritableBuffer& buffer) {
  const std::vector<Range> ranges = to_ranges(rows);
  const MutableBytes target = writable_bytes(buffer);
  check_places(ranges, target);
  for (const Range& range : ranges) {
    if (!lies_inside(range.offset, range.size, source.size())) {
      throw nb::value_error("a range lies outside the source");
    }
  }
  const nb::gil_scoped_release unlocked;
  copy_ranges(bytes_of(source), ranges, target);
}

using BlockArrays = std::tuple<Buffer, Numbers, Numbers, Numbers>;

std::int64_t bind_gather_frames(const std::vector<BlockArrays>& arrays, const Numbers& names,
                                const Numbers& numbers, const Numbers& blocks,
                                const Numbers& placed, const Numbers& sizes,
                                const WritableBuffer& buffer) {
  std::vector<FrameBlock> held;
  for (const auto& [bytes, held_numbers, held_placed, held_sizes] : arrays) {
    held.push_back(
        {bytes_of(bytes), span_of(held_numbers), span_of(held_placed), span_of(held_sizes)});
    const FrameBlock& block = held.back();
    if (block.placed.size() != block.numbers.size() || block.sizes.size() != block.numbers.size()) {
      throw nb::value_error("the arrays of a block differ in size");
    }
  }
  if (names.size() != held.size()) throw nb::value_error("each block must have a name");
  const WantedFrames wanted{span_of(numbers), span_of(blocks), span_of(placed), span_of(sizes)};
  const std::size_t count = wanted.numbers.size();
  if (wanted.blocks.size() != count || wanted.placed.size() != count ||
      wanted.sizes.size() != count) {
    throw nb::value_error("the arrays of what is wanted differ in size");
  }
  std::size_t done = 0;
  {
    const nb::gil_scoped_release unlocked;
    done = copy_frames(held, span_of(names), wanted, writable_bytes(buffer));
  }
  return done < count ? static_cast<std::int64_t>(done) : -1;
}

}  // namespace

void bind_ranges(nb::module_& m) {
  using namespace nb::literals;
  m.def("read_ranges", &bind_read_ranges, "fds"_a, "cuts"_a, "ranges"_a, "buffer"_a,
        "Reads ranges ([n, 3]: file offset, size, place in the buffer) of open files; those from\n"
        "cuts[i] to cuts[i + 1] are of fds[i].\n\n"
        "Returns -1, or the number of a range that reaches past the end of its file; and how\n"
        "often the thread had to wait: not all was in memory.");
  m.def("advise_ranges", &bind_advise_ranges, "fd"_a, "ranges"_a,
        "Tells the system that ranges, as in read_ranges, are about to be read.");
  m.def(
      "gather", &bind_gather, "source"_a, "ranges"_a, "buffer"_a,
      "Copies ranges ([n, 3]: offset in `source`, size, place in `buffer`), one after the other.\n"
      "The two may share memory.");
  m.def(
      "gather_frames", &bind_gather_frames, "held"_a, "names"_a, "numbers"_a, "blocks"_a,
      "placed"_a, "sizes"_a, "buffer"_a,
      "Copies frames from blocks to where they are wanted in `buffer`.\n\n"
      "`held` has (buffer, numbers, placed, sizes) of each block, `names` its name; both numbers\n"
      "and names ascend. The frame of numbers[i], in the block blocks[i], goes to placed[i];\n"
      "those of other blocks are left out. Returns -1, or the number of one that its block\n"
      "lacks.");
}

}  // namespace tio
