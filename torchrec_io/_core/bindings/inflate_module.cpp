// The Python module of decompression. It is a module of its own, so that the core needs no ISA-L.
#include "bindings/arrays.h"
#include "inflate/stream.h"

namespace tio {
namespace {

using Format = InflateStream::Format;

// Fewer bytes take less time than another thread needs to wake up.
constexpr std::size_t kLongInput = 1 << 11;
constexpr std::size_t kLongOutput = 1 << 14;

[[noreturn]] void throw_zlib_error(const std::string& reason) {
  const nb::object type = nb::module_::import_("zlib").attr("error");
  PyErr_SetString(type.ptr(), reason.c_str());
  throw nb::python_error();
}

void make_inside(InflateStream* self, const Buffer& window, int bit, std::uint8_t first) {
  if (bit < 0 || bit > 7) throw nb::value_error("bit must be from 0 to 7");
  new (self) InflateStream(bytes_of(window), bit, std::byte{first});
}

std::pair<std::size_t, std::size_t> bind_decode(InflateStream& self, const Buffer& in,
                                                const WritableBuffer& out) {
  Inflated progress;
  std::string reason;
  bool is_good;
  {
    const ReleasedGil unlocked(in.size() >= kLongInput && out.size() >= kLongOutput);
    is_good = self.decode(bytes_of(in), writable_bytes(out), progress, reason);
  }
  if (!is_good) throw_zlib_error(reason);
  return {progress.consumed, progress.produced};
}

}  // namespace
}  // namespace tio

NB_MODULE(_inflate, module) {
  using namespace tio;  // NOLINT: only in this function
  nanobind::set_leak_warnings(false);
  module.doc() =
      "Decompression of torchrec_io. Private: its names may change in any release.\n\n"
      "It is missing from builds without ISA-L.";
  bind_exit(module);  // ReleasedGil of this module does not know that of the core
  nb::enum_<Format>(module, "Format", "Format of a stream.")
      .value("deflate", Format::deflate)
      .value("gzip", Format::gzip)
      .value("zlib", Format::zlib);
  nb::class_<InflateStream>(
      module, "InflateStream",
      "A gzip member, zlib stream or DEFLATE stream that is decompressed in "
      "pieces.\n\n"
      "Only one thread may use it at a time.\n\n"
      "Args:\n"
      "    format: Format of the stream, which starts with its header.\n"
      "    window: Up to 32 KiB before the start in a DEFLATE stream; uint8.\n"
      "    bit: Bit of a byte where that starts, from 0 to 7.\n"
      "    first: The byte.")
      .def(nb::init<Format>(), "format"_a)
      .def("__init__", &make_inside, "window"_a, "bit"_a, "first"_a)
      .def_prop_ro("is_done", &InflateStream::is_done,
                   "True if the stream has ended, and its checksum is right.")
      .def(
          "decode", &bind_decode, "data"_a, "out"_a,
          "Decompress until the output is full, the input does not suffice, or the stream ends.\n\n"
          "Args:\n"
          "    data: Input; uint8. What was not consumed must precede the next input. In a stream\n"
          "        that starts inside a byte, the first input is the byte after that.\n"
          "    out: Memory for the output; uint8.\n\n"
          "Returns:\n"
          "    Number of bytes consumed and produced.\n\n"
          "Raises:\n"
          "    zlib.error: If the stream is damaged. The content of `out` is undefined then.");
}
