#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "records/checked_file.h"
#include "records/file_watch.h"
#include "records/frame_gather.h"
#include "records/ranges.h"

namespace tio {
namespace {

void check_targets(const std::vector<Range>& ranges, MutableBytes buffer) {
  for (const Range& range : ranges) {
    if (!is_inside(range.target, range.size, buffer.size())) {
      throw nb::value_error("ranges must lie inside the buffer");
    }
  }
}

void check_bounds(const std::vector<std::int64_t>& bounds, std::size_t files, std::size_t ranges) {
  if (bounds.size() != files + 1) {
    throw nb::value_error("bounds must have one more entry than there are files");
  }
  if (bounds.front() < 0 || bounds.back() > static_cast<std::int64_t>(ranges) ||
      !std::ranges::is_sorted(bounds)) {
    throw nb::value_error("bounds must ascend and must not exceed the number of ranges");
  }
}

std::optional<std::size_t> bind_read_ranges(const Sequence<int>& descriptors,
                                            const Sequence<std::int64_t>& bounds,
                                            const Matrix<std::int64_t>& rows,
                                            const WritableBuffer& buffer) {
  const std::vector<int> files = Items<int>(descriptors).values();
  const std::vector<std::int64_t> range_bounds = Items<std::int64_t>(bounds).values();
  const std::vector<Range> ranges = to_ranges(rows);
  const MutableBytes target = writable_bytes(buffer);
  check_bounds(range_bounds, files.size(), ranges.size());
  check_targets(ranges, target);
  ReadResult result;
  {
    const ReleasedGil unlocked;
    result = read_ranges(files, ranges, range_bounds, target);
  }
  if (result.error != 0) {
    errno = result.error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  return result.truncated_range;
}

// Copies of fewer bytes are not long.
constexpr std::size_t kManyBytes = std::size_t{1} << 18;

void bind_gather(const Buffer& source, const Matrix<std::int64_t>& rows,
                 const WritableBuffer& buffer) {
  const std::vector<Range> ranges = to_ranges(rows);
  const MutableBytes target = writable_bytes(buffer);
  check_targets(ranges, target);
  for (const Range& range : ranges) {
    if (!is_inside(range.offset, range.size, source.size())) {
      throw nb::value_error("ranges must lie inside the source");
    }
  }
  std::size_t total = 0;
  for (const Range& range : ranges) total += range.size;
  const ReleasedGil unlocked(total >= kManyBytes);
  copy_ranges(bytes_of(source), ranges, target);
}

bool bind_read_checked(int descriptor, std::int64_t size, const Buffer& checksums,
                       const Matrix<std::int64_t>& rows, const WritableBuffer& buffer) {
  const Bytes bytes = bytes_of(checksums);
  if (size < 0 || bytes.size() != 4 * count_chunks(static_cast<std::size_t>(size))) {
    throw nb::value_error("each chunk of a file must have a checksum of 4 bytes");
  }
  std::vector<std::uint32_t> values(bytes.size() / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  const CheckedFile file{descriptor, size, std::move(values)};
  const std::vector<Range> ranges = to_ranges(rows);
  const MutableBytes target = writable_bytes(buffer);
  check_targets(ranges, target);
  const ReleasedGil unlocked;
  return read_checked(file, ranges, target);
}

nb::bytes bind_chunk_checksums(const Buffer& data) {
  std::vector<std::uint32_t> checksums;
  {
    const ReleasedGil unlocked;
    checksums = chunk_checksums(bytes_of(data));
  }
  return nb::bytes(checksums.data(), 4 * checksums.size());
}

std::optional<std::size_t> find_changed_file(const Sequence<FileWatch>& watches) {
  const Items<const FileWatch*> items(watches);
  const ReleasedGil unlocked;
  for (std::size_t i = 0; i < items.values().size(); ++i) {
    if (items.values()[i]->is_changed()) return i;
  }
  return std::nullopt;
}

void init_frame_block(FrameBlock* self, nb::handle_t<ReadPlan> plan, Buffer buffer) {
  const Bytes bytes = bytes_of(buffer);
  auto shared_plan = share(plan);
  Owner owner = owner_of(std::move(buffer));
  new (self) FrameBlock{std::move(shared_plan), bytes, std::move(owner)};
}

std::optional<std::size_t> bind_gather_frames(const Sequence<FrameBlock>& blocks,
                                              const Numbers& block_numbers, const ReadPlan& plan,
                                              const Numbers& record_blocks,
                                              const WritableBuffer& buffer) {
  const Items<const FrameBlock*> items(blocks);
  if (block_numbers.size() != items.values().size())
    throw nb::value_error("each block must have a number");
  if (record_blocks.size() != plan.numbers.size()) {
    throw nb::value_error("each record must have a block");
  }
  const ReleasedGil unlocked;
  return gather_frames(items.values(), span_of(block_numbers), plan, span_of(record_blocks),
                       writable_bytes(buffer));
}

}  // namespace

void bind_reads(nb::module_& m) {
  m.def("read_ranges", &bind_read_ranges, "descriptors"_a, "bounds"_a, "ranges"_a, "buffer"_a,
        "Read ranges of several files into a buffer.\n\n"
        "Args:\n"
        "    descriptors: Descriptors of the open files.\n"
        "    bounds: Ranges of each file: file i has ranges[bounds[i] : bounds[i + 1]].\n"
        "    ranges: int64 [n, 3]: file offset, size, offset in the buffer.\n"
        "    buffer: Bytes that receive the data.\n\n"
        "Returns:\n"
        "    Number of the range that extends past the end of its file; None if there is none.\n\n"
        "Raises:\n"
        "    OSError: If reading fails.");
  m.def("gather", &bind_gather, "source"_a, "ranges"_a, "buffer"_a,
        "Copy ranges from `source` to `buffer`, one after another. The two may overlap.\n\n"
        "Args:\n"
        "    source: Bytes to copy from.\n"
        "    ranges: int64 [n, 3]: offset in the source, size, offset in the buffer.\n"
        "    buffer: Bytes that receive the data.");

  m.def("chunk_checksums", &bind_chunk_checksums, "data"_a,
        "Return the CRC-32C of each chunk of 4,096 bytes, as little-endian uint32.");
  m.def("read_checked", &bind_read_checked, "descriptor"_a, "size"_a, "checksums"_a, "ranges"_a,
        "buffer"_a,
        "Read ranges of an open file whose chunks have checksums.\n\n"
        "Args:\n"
        "    descriptor: Descriptor of the file.\n"
        "    size: Number of its first bytes that have checksums.\n"
        "    checksums: Those that `chunk_checksums` returned.\n"
        "    ranges: int64 [n, 3]: file offset, size, offset in the buffer.\n"
        "    buffer: Bytes that receive the data.\n\n"
        "Returns:\n"
        "    False if a range cannot be read, or is damaged.");

  nb::class_<FileWatch>(m, "FileWatch", "Notices that an open file is changed in place.")
      .def(nb::init<int, std::int64_t, std::int64_t>(), "descriptor"_a, "size"_a, "mtime_ns"_a,
           "Args:\n"
           "    descriptor: Descriptor of the file, open as long as the watch is used.\n"
           "    size: Size of the file when it was opened.\n"
           "    mtime_ns: Modification time of the file when it was opened.")
      .def("present_size", &FileWatch::present_size,
           "Return the present size of the file; -1 if that is unknown.");
  m.def("find_changed_file", &find_changed_file, "watches"_a,
        "Return the position of the first file that was changed; None if there is none.");

  nb::class_<FrameBlock>(m, "FrameBlock", "The frames of a block of records, in memory.")
      .def("__init__", &init_frame_block, "plan"_a, "buffer"_a,
           "Args:\n"
           "    plan: Plan of the records, whose numbers ascend.\n"
           "    buffer: Bytes that were read by the plan.")
      .def_prop_ro(
          "nbytes", [](const FrameBlock& self) { return self.buffer.size(); },
          "Size of the frames in bytes.");
  m.def("gather_frames", &bind_gather_frames, "blocks"_a, "block_numbers"_a, "plan"_a,
        "record_blocks"_a, "buffer"_a,
        "Copy the frames of records from blocks in memory to a buffer.\n\n"
        "Args:\n"
        "    blocks: Blocks in memory.\n"
        "    block_numbers: Number of each block, ascending.\n"
        "    plan: Plan of the records, with the offset of each frame in the buffer.\n"
        "    record_blocks: Number of each record's block. Records of other blocks are skipped.\n"
        "    buffer: Bytes that receive the frames.\n\n"
        "Returns:\n"
        "    Position of the first record that its block lacks; None if all are there.");
}

}  // namespace tio
