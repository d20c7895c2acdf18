// Python bindings: check arguments, release the GIL, call, return. No logic lives here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "wire/crc32c.h"
#include "records/framing.h"
#include "records/index.h"
#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "order/permutation.h"
#include "records/pool.h"

namespace tio {
namespace {

const char* fault_name(FrameFault fault) {
  switch (fault) {
    case FrameFault::none: return "";
    case FrameFault::length_crc: return "length_crc";
    case FrameFault::past_end: return "past_end";
    case FrameFault::data_crc: return "data_crc";
    case FrameFault::other_length: return "other_length";
  }
  return "";
}

// ---- memory ----

NumpyVector<std::uint8_t> bind_allocate(std::size_t size) {
  struct Owned {
    void* memory;
    std::size_t size;
    ~Owned() { pool::give_back(memory, size); }
  };
  std::unique_ptr<Owned> owned(new Owned{pool::take(size), size});
  auto* data = static_cast<std::uint8_t*>(owned->memory);
  nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<Owned*>(p); });
  return NumpyVector<std::uint8_t>(data, {size}, owner);
}

// ---- crc32c ----

std::uint32_t bind_crc32c(const Buffer& data, std::uint32_t crc, bool portable) {
  const Bytes bytes = bytes_of(data);
  const nb::gil_scoped_release unlocked;
  return crc32c(bytes, crc, portable ? CrcPath::portable : best_crc_path());
}

// ---- framing ----

auto bind_scan_frames(const Buffer& window, std::uint64_t at, std::uint64_t stream_end) {
  if (at > stream_end) throw nb::value_error("at lies behind stream_end");
  FrameScan scan;
  {
    const nb::gil_scoped_release unlocked;
    scan = scan_frames(bytes_of(window), at, stream_end);
  }
  return std::make_tuple(to_numpy(std::move(scan.starts)), scan.next,
                         std::string(fault_name(scan.fault)));
}

std::vector<std::tuple<std::size_t, std::string>> bind_check_frames(
    const Buffer& buffer, const Vector<std::int64_t>& starts, const Vector<std::int64_t>& lengths,
    bool check_data) {
  if (starts.size() != lengths.size()) throw nb::value_error("starts and lengths differ in size");
  std::vector<std::tuple<std::size_t, std::string>> faults;
  const nb::gil_scoped_release unlocked;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const FrameFault fault =
        check_frame(bytes_of(buffer), static_cast<std::uint64_t>(starts.data()[i]),
                    static_cast<std::uint64_t>(lengths.data()[i]), check_data);
    if (fault != FrameFault::none) faults.emplace_back(i, fault_name(fault));
  }
  return faults;
}

Bytes record_bytes(nb::handle record) {
  if (!PyBytes_Check(record.ptr())) throw nb::type_error("a record must be bytes");
  return {reinterpret_cast<const std::byte*>(PyBytes_AsString(record.ptr())),
          static_cast<std::size_t>(PyBytes_Size(record.ptr()))};
}

auto bind_frame_records(const nb::list& list) {
  // Of their own: another thread may change the list while the GIL is released.
  const nb::tuple records(list);
  std::vector<Bytes> spans;
  std::vector<std::uint64_t> starts;
  spans.reserve(records.size());
  starts.reserve(records.size());
  std::size_t size = 0;
  for (const nb::handle record : records) {
    starts.push_back(size);
    spans.push_back(record_bytes(record));
    size += spans.back().size() + kFrameOverheadBytes;
  }
  NumpyVector<std::uint8_t> frames = bind_allocate(size);
  {
    const nb::gil_scoped_release unlocked;
    MutableBytes left(reinterpret_cast<std::byte*>(frames.data()), size);
    for (const Bytes record : spans) {
      write_frame(record, left);
      left = left.subspan(record.size() + kFrameOverheadBytes);
    }
  }
  return std::make_tuple(std::move(frames), to_numpy(std::move(starts)));
}

auto bind_frame_ends(const nb::bytes& record) {
  const Bytes bytes = record_bytes(record);
  FrameEnds ends;
  {
    const nb::gil_scoped_release unlocked;
    ends = frame_ends(bytes);
  }
  return std::make_tuple(nb::bytes(ends.header.data(), ends.header.size()),
                         nb::bytes(ends.footer.data(), ends.footer.size()));
}

// ---- index ----

nb::bytes bind_encode_index(const Vector<std::uint64_t>& starts,
                            const Matrix<std::uint64_t>& restarts, std::uint32_t format,
                            std::uint32_t compression, std::uint64_t data_bytes,
                            std::int64_t data_mtime_ns, std::uint64_t data_fingerprint,
                            std::uint64_t stream_end) {
  if (restarts.shape(1) != 2) throw nb::value_error("restarts must have two columns");
  IndexHeader header;
  header.format = format;
  header.compression = compression;
  header.data_bytes = data_bytes;
  header.data_mtime_ns = data_mtime_ns;
  header.data_fingerprint = data_fingerprint;
  header.stream_end = stream_end;
  std::vector<std::byte> file;
  {
    const nb::gil_scoped_release unlocked;
    std::vector<Restart> table(restarts.shape(0));
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = {restarts.data()[2 * i], restarts.data()[2 * i + 1]};
    }
    file = encode_index(header, span_of(starts), table);
  }
  return nb::bytes(file.data(), file.size());
}

IndexView open_index(const Buffer& file, bool check_body) {
  std::string reason;
  auto view = IndexView::open(bytes_of(file), check_body, reason);
  if (!view) throw nb::value_error(reason.c_str());
  return *view;
}

auto bind_read_index_header(const Buffer& file) {
  const IndexView view = open_index(file, true);
  const IndexHeader& h = view.header();
  return std::make_tuple(h.format, h.compression, h.count, h.data_bytes, h.data_mtime_ns,
                         h.data_fingerprint, h.stream_end);
}

auto bind_read_index_restarts(const Buffer& file) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t>> restarts;
  for (const auto& r : open_index(file, false).restarts()) {
    restarts.emplace_back(r.stream_offset, r.file_offset);
  }
  return restarts;
}

auto bind_locate_records(const Buffer& file, const Vector<std::int64_t>& records) {
  const IndexView view = open_index(file, false);
  std::vector<std::int64_t> starts(records.size());
  std::vector<std::int64_t> ends(records.size());
  bool found = true;
  {
    const nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; found && i < records.size(); ++i) {
      std::uint64_t start = 0;
      std::uint64_t end = 0;
      found = view.locate(static_cast<std::uint64_t>(records.data()[i]), start, end) &&
              end <= static_cast<std::uint64_t>(INT64_MAX);
      starts[i] = static_cast<std::int64_t>(start);
      ends[i] = static_cast<std::int64_t>(end);
    }
  }
  if (!found) throw nb::index_error("no such record, or the index entry is damaged");
  return std::make_tuple(to_numpy(std::move(starts)), to_numpy(std::move(ends)));
}

// ---- order ----

template <class Order>
NumpyVector<std::int64_t> apply_order(const Vector<std::int64_t>& positions, std::uint64_t size,
                                      Order order) {
  std::vector<std::int64_t> out(positions.size());
  bool inside = false;
  {
    const nb::gil_scoped_release unlocked;
    std::copy_n(positions.data(), out.size(), out.data());
    // Signed and unsigned integers may share memory; negative positions become huge ones.
    const std::span values(reinterpret_cast<std::uint64_t*>(out.data()), out.size());
    inside = std::all_of(values.begin(), values.end(), [&](auto v) { return v < size; });
    if (inside) order.apply(values);
  }
  if (!inside) throw nb::index_error("a position lies outside the order");
  return to_numpy(std::move(out));
}

void check_positive(std::uint64_t value, const char* message) {
  if (value == 0 || value > INT64_MAX) throw nb::value_error(message);
}

NumpyVector<std::int64_t> bind_permute(const Vector<std::int64_t>& positions, std::uint64_t size,
                                       std::uint64_t key) {
  check_positive(size, "size must be positive");
  return apply_order(positions, size, Permutation(size, key));
}

NumpyVector<std::int64_t> bind_window_permute(const Vector<std::int64_t>& positions,
                                              std::uint64_t size, std::uint64_t window,
                                              std::uint64_t key) {
  check_positive(size, "size must be positive");
  check_positive(window, "window must be positive");
  return apply_order(positions, size, WindowPermutation(size, window, key));
}

NumpyVector<std::int64_t> bind_block_permute(const Vector<std::int64_t>& positions,
                                             std::uint64_t size, std::uint64_t block,
                                             std::uint64_t window, std::uint64_t key) {
  check_positive(size, "size must be positive");
  check_positive(block, "block must be positive");
  check_positive(window, "window must be positive");
  return apply_order(positions, size, BlockPermutation(size, block, window, key));
}

}  // namespace
}  // namespace tio

NB_MODULE(_core, m) {
  using namespace tio;
  using namespace nb::literals;
  // A thread that the interpreter's exit ends holds on to what it was at: nothing to tell users.
  nb::set_leak_warnings(false);
  m.doc() = "Native core of torchrec_io. Private: its names may change in any release.";

  m.def("allocate", &bind_allocate, "size"_a,
        "An array of bytes, 64-byte aligned, of any content, from memory that is kept for reuse.");
  m.def("kept_bytes", &pool::kept_bytes,
        "Bytes of memory that are kept for reuse; 0 where another thread is busy with them.");

  m.def("crc32c", &bind_crc32c, "data"_a, "crc"_a = 0, "portable"_a = false,
        "CRC-32C of `data` appended to data whose CRC is `crc`.");
  m.def("mask_crc", &mask_crc, "crc"_a, "The masked form of a CRC that TFRecord stores.");

  m.def("scan_frames", &bind_scan_frames, "window"_a, "at"_a, "stream_end"_a,
        "Walks the frames of a stream's bytes from offset `at`, which starts a frame, on.\n\n"
        "Returns (starts, next, fault): stream offsets of whole frames, where the next header\n"
        "should start, and what is wrong there ('' if nothing is).");
  m.def(
      "check_frames", &bind_check_frames, "buffer"_a, "starts"_a, "lengths"_a, "check_data"_a,
      "Checks frames whose headers start at `starts`; returns (position, fault) of the bad ones.");

  m.def("frame_records", &bind_frame_records, "records"_a,
        nb::sig("def frame_records(records: list[bytes]) -> "
                "tuple[NDArray[numpy.uint8], NDArray[numpy.uint64]]"),
        "(frames, starts): the frames of records, one after another, and where each starts.");
  m.def("frame_ends", &bind_frame_ends, "record"_a,
        "What stands before and behind a record's data in its frame.");

  m.def("encode_index", &bind_encode_index, "starts"_a, "restarts"_a, nb::kw_only(), "format"_a,
        "compression"_a, "data_bytes"_a, "data_mtime_ns"_a, "data_fingerprint"_a, "stream_end"_a,
        "The bytes of a .tfidx file.");
  m.def("read_index_header", &bind_read_index_header, "file"_a,
        "Checks a whole .tfidx file and returns (format, compression, count, data_bytes,\n"
        "data_mtime_ns, data_fingerprint, stream_end). ValueError says what is wrong with it.");
  m.def("read_index_restarts", &bind_read_index_restarts, "file"_a,
        "(stream offset, file offset) of each place where decompression can start.");
  m.def("locate_records", &bind_locate_records, "file"_a, "records"_a,
        "Stream offsets of the starts and ends of records.");

  m.def("permute", &bind_permute, "positions"_a, "size"_a, "key"_a,
        "Values of a keyed uniform permutation of 0..size-1 at `positions`.");
  m.def("window_permute", &bind_window_permute, "positions"_a, "size"_a, "window"_a, "key"_a,
        "Values at `positions` of a permutation that moves none by more than `window`.");
  m.def("block_permute", &bind_block_permute, "positions"_a, "size"_a, "block"_a, "window"_a,
        "key"_a,
        "Values at `positions` of a permutation of whole blocks, then of each window's positions.");

  bind_encode(m);

  bind_example(m);
  bind_example_list(m);

  bind_subset(m);
  bind_index_set(m);
  bind_ranges(m);
  bind_runs(m);
  bind_memory(m);
  bind_png(m);
}
