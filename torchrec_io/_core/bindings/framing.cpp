#include "records/framing.h"

#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "records/frame_sweep.h"
#include "wire/crc32c.h"

namespace tio {
namespace {

FrameScan bind_scan_frames(const Buffer& window, std::uint64_t at, std::uint64_t stream_end,
                           bool check_lengths) {
  if (at > stream_end) throw nb::value_error("at must not exceed stream_end");
  const ReleasedGil unlocked;
  return scan_frames(bytes_of(window), at, stream_end, check_lengths);
}

auto bind_check_frames(const Buffer& buffer, const Numbers& starts, const Numbers& lengths,
                       bool check_crcs) {
  if (starts.size() != lengths.size()) {
    throw nb::value_error("starts and lengths must have the same size");
  }
  const ReleasedGil unlocked;
  return check_frames(bytes_of(buffer), span_of(starts), span_of(lengths), check_crcs);
}

FrameSweep bind_sweep_frames(const Buffer& window, std::uint64_t left,
                             std::uint64_t max_record_bytes, bool is_in_gap) {
  const Bytes bytes = bytes_of(window);
  if (left < bytes.size()) throw nb::value_error("left must not be less than the window's size");
  const ReleasedGil unlocked;
  return sweep_frames(bytes, left, max_record_bytes, is_in_gap);
}

auto bind_frame_records(const nb::list& list) {
  // A copy, because another thread may change the list while the GIL is released.
  const nb::tuple records(list);
  std::vector<Bytes> views;
  std::vector<std::uint64_t> starts;
  views.reserve(records.size());
  starts.reserve(records.size());
  std::size_t size = 0;
  for (const nb::handle record : records) {
    starts.push_back(size);
    views.push_back(bytes_of(record));
    size += views.back().size() + kFrameOverheadBytes;
  }
  NumpyVector<std::uint8_t> frames = allocate_array(size);
  {
    const ReleasedGil unlocked;
    write_frames(views, {reinterpret_cast<std::byte*>(frames.data()), size});
  }
  return std::make_tuple(std::move(frames), to_numpy(std::move(starts)));
}

auto bind_frame_ends(const nb::bytes& record) {
  const Bytes bytes = bytes_of(record);
  FrameEnds ends;
  {
    const ReleasedGil unlocked;
    ends = frame_ends(bytes);
  }
  return std::make_tuple(nb::bytes(ends.header.data(), ends.header.size()),
                         nb::bytes(ends.footer.data(), ends.footer.size()));
}

}  // namespace

void bind_framing(nb::module_& m) {
  m.def(
      "crc32c", [](const Buffer& data) { return crc32c(bytes_of(data)); }, Unlocked(), "data"_a,
      "Return the CRC-32C of data.");
  m.def("mask_crc", &mask_crc, "crc"_a,
        "Return the masked form of a CRC, as TFRecord files store it.");

  m.attr("FRAME_HEADER_BYTES") = kFrameHeaderBytes;
  m.attr("FRAME_FOOTER_BYTES") = kFrameFooterBytes;
  nb::enum_<FrameFault>(m, "FrameFault", "Fault of a frame.")
      .value("length_crc", FrameFault::length_crc, "The length does not match its checksum.")
      .value("past_end", FrameFault::past_end, "The frame extends past the end of the file.")
      .value("data_crc", FrameFault::data_crc, "The data does not match its checksum.")
      .value("length_mismatch", FrameFault::length_mismatch,
             "The frame is valid, but does not have the expected length.")
      .value("truncated_header", FrameFault::truncated_header,
             "The file ends inside a header. Reported by callers, which know where it ends.")
      .value("too_large", FrameFault::too_large,
             "The record is larger than the limit. Reported by sweep_frames.");

  nb::class_<FrameScan>(m, "FrameScan", "The frames found in a part of a stream.")
      .def_prop_ro("starts", array_of(&FrameScan::starts),
                   "Stream offsets of the whole frames; uint64 [n].")
      .def_ro("next", &FrameScan::next, "Stream offset where the next header should start.")
      .def_ro("fault", &FrameScan::fault, "Fault of the frame at `next`; None if it has none.");
  m.def("scan_frames", &bind_scan_frames, "window"_a, "at"_a, "stream_end"_a,
        "check_lengths"_a = true,
        "Find the frames in a part of a stream.\n\n"
        "Args:\n"
        "    window: Bytes of the stream.\n"
        "    at: Stream offset of the window. A frame must start there.\n"
        "    stream_end: Size of the stream, or more if it is unknown.\n"
        "    check_lengths: Whether to check the CRCs of lengths.");
  m.def("check_frames", &bind_check_frames, "buffer"_a, "starts"_a, "lengths"_a, "check_crcs"_a,
        "Check frames in a buffer, and return the position and fault of each invalid one.\n\n"
        "Args:\n"
        "    buffer: Bytes that contain the frames.\n"
        "    starts: Offset of each frame in the buffer.\n"
        "    lengths: Expected number of data bytes of each frame.\n"
        "    check_crcs: Whether to check the CRCs of the length and the data.");
  nb::class_<FrameGap>(m, "FrameGap", "A part of a stream without valid frames.")
      .def_ro("start", &FrameGap::start, "Offset in the window.")
      .def_ro("end", &FrameGap::end, "Offset of its end in the window.")
      .def_ro("fault", &FrameGap::fault, "Fault of the frame at `start`.")
      .def_ro("is_one_frame", &FrameGap::is_one_frame,
              "True if the gap is one frame with damaged data.");
  nb::class_<FrameSweep>(m, "FrameSweep", "The valid frames of a part of a damaged stream.")
      .def_prop_ro("starts", array_of(&FrameSweep::starts),
                   "Offset in the window of each valid frame; uint64 [n].")
      .def_prop_ro("lengths", array_of(&FrameSweep::lengths),
                   "Number of data bytes of each valid frame; uint64 [n].")
      .def_ro("gaps", &FrameSweep::gaps, "Gaps that end in the window.")
      .def_ro("at", &FrameSweep::at, "Offset in the window; everything before it is decided.")
      .def_ro("needed", &FrameSweep::needed,
              "Number of bytes from `at` on that are needed to decide more.")
      .def_ro("open_gap", &FrameSweep::open_gap,
              "Gap that continues at `at`; None if there is none. Its start is 0 if it began in an "
              "earlier window.");
  m.def("sweep_frames", &bind_sweep_frames, "window"_a, "left"_a, "max_record_bytes"_a,
        "is_in_gap"_a,
        "Find all frames in a part of a stream whose length and data match their checksums.\n\n"
        "Args:\n"
        "    window: Bytes of the stream.\n"
        "    left: Number of bytes of the stream from the window on, or more if it is unknown.\n"
        "    max_record_bytes: Largest size of a record in bytes.\n"
        "    is_in_gap: Whether a gap of an earlier window continues at the start of this one.");

  m.def("frame_records", &bind_frame_records, "records"_a,
        nb::sig("def frame_records(records: list[bytes]) -> "
                "tuple[NDArray[numpy.uint8], NDArray[numpy.uint64]]"),
        "Return the frames of records, one after another, and the offset of each frame.");
  m.def("frame_ends", &bind_frame_ends, "record"_a,
        "Return the header and the footer of the frame of a record.");
}

}  // namespace tio
