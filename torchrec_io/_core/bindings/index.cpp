#include "records/index.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "records/index_set.h"

namespace tio {
namespace {

// ---- one index ----

nb::bytes bind_encode_index(const IndexHeader& header, const Vector<std::uint64_t>& starts,
                            const Matrix<std::uint64_t>& restarts) {
  if (restarts.shape(1) != 2) throw nb::value_error("restarts must have two columns");
  std::vector<std::byte> file;
  {
    const ReleasedGil unlocked;
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

auto bind_read_index_restarts(const Buffer& file) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t>> restarts;
  for (const auto& restart : open_index(file, false).restarts()) {
    restarts.emplace_back(restart.stream_offset, restart.file_offset);
  }
  return restarts;
}

auto bind_locate_records(const Buffer& file, const Numbers& records) {
  const IndexView view = open_index(file, false);
  std::vector<std::int64_t> starts(records.size());
  std::vector<std::int64_t> ends(records.size());
  bool is_found = false;
  {
    const ReleasedGil unlocked;
    is_found = view.locate(span_of(records), starts, ends);
  }
  if (!is_found) throw nb::index_error("a record does not exist, or its index entry is damaged");
  return std::make_tuple(to_numpy(std::move(starts)), to_numpy(std::move(ends)));
}

// ---- many indexes ----

IndexSet open_set(const Numbers& counts) {
  auto set = IndexSet::open(span_of(counts));
  if (!set) throw nb::value_error("counts must not be negative, and their sum must fit in int64");
  return std::move(*set);
}

std::size_t check_file(const IndexSet& set, std::int64_t file) {
  if (file < 0 || static_cast<std::size_t>(file) >= set.files()) {
    throw nb::index_error("the file does not exist");
  }
  return static_cast<std::size_t>(file);
}

void bind_mark_checked(IndexSet& self, std::int64_t file, Buffer index, std::uint64_t epoch) {
  const std::size_t number = check_file(self, file);
  const Bytes bytes = bytes_of(index);
  std::string reason;
  if (!self.mark_checked(number, bytes, owner_of(std::move(index)), epoch, reason)) {
    throw nb::value_error(reason.c_str());
  }
}

std::vector<std::int64_t> bind_unchecked(const IndexSet& self,
                                         const std::vector<std::int64_t>& files,
                                         std::uint64_t epoch) {
  std::vector<std::int64_t> unchecked;
  for (const std::int64_t file : files) {
    if (!self.is_checked(check_file(self, file), epoch)) unchecked.push_back(file);
  }
  return unchecked;
}

void check_lookup(const IndexSet& set, Lookup lookup) {
  if (lookup == Lookup::no_such_record) {
    const std::string count = std::to_string(set.records());
    throw nb::index_error(
        ("a record number is out of range: there are " + count + " records").c_str());
  }
  if (lookup == Lookup::damaged) throw nb::index_error("the index entry of a record is damaged");
}

FrameLocations bind_locate(const IndexSet& self, const Numbers& numbers, std::uint64_t epoch) {
  FrameLocations locations;
  Lookup lookup{};
  {
    const ReleasedGil unlocked;
    lookup = self.locate(span_of(numbers), epoch, locations);
  }
  check_lookup(self, lookup);
  return locations;
}

ReadPlan bind_plan(const IndexSet& self, const Numbers& numbers, std::uint64_t epoch,
                   std::int64_t gap) {
  if (gap < 0) throw nb::value_error("gap must not be negative");
  ReadPlan plan;
  Lookup lookup{};
  {
    const ReleasedGil unlocked;
    lookup = self.plan(span_of(numbers), epoch, gap, plan);
  }
  check_lookup(self, lookup);
  return plan;
}

NumpyMatrix<const std::int64_t> plan_ranges(ReadPlan& self) {
  static_assert(sizeof(Range) == 3 * sizeof(std::int64_t));
  const auto* data = reinterpret_cast<const std::int64_t*>(self.ranges.data());
  return {data, {self.ranges.size(), 3}, nb::find(self)};
}

nb::list plan_by_file(ReadPlan& self) {
  const nb::object ranges = nb::cast(plan_ranges(self));
  nb::list files;
  for (std::size_t i = 0; i < self.files.size(); ++i) {
    const nb::slice part(self.range_bounds[i], self.range_bounds[i + 1]);
    files.append(nb::make_tuple(self.files[i], ranges[part]));
  }
  return files;
}

void bind_index_set(nb::module_& m) {
  nb::class_<FrameLocations>(m, "FrameLocations", "Locations of the frames of some records.")
      .def_ro("files", &FrameLocations::files, "File of each record.")
      .def_ro("starts", &FrameLocations::starts, "Stream offset of each record's frame.")
      .def_ro("unchecked_files", &FrameLocations::unchecked_files,
              "Files that must be checked first. If there are any, the locations are missing.");

  nb::class_<ReadPlan>(m, "ReadPlan",
                       "A plan of the reads that fetch the frames of some records into a buffer.")
      .def_prop_ro("numbers", array_of(&ReadPlan::numbers), "Numbers of the records; int64 [n].")
      .def_prop_ro("frame_sizes", array_of(&ReadPlan::frame_sizes),
                   "Bytes of each record's frame; int64 [n].")
      .def_prop_ro("frame_starts", array_of(&ReadPlan::frame_starts),
                   "Offset of each frame in the buffer; int64 [n].")
      .def_ro("files", &ReadPlan::files, "Numbers of the files that are read, ascending.")
      .def_ro("range_bounds", &ReadPlan::range_bounds,
              "Number of the first range of each file, and the number of ranges; [files + 1].")
      .def_prop_ro("ranges", &plan_ranges,
                   "Ranges to read; int64 [reads, 3]: file offset, size, offset in the buffer.")
      .def_ro("buffer_bytes", &ReadPlan::buffer_bytes, "Size of the buffer.")
      .def_ro("unchecked_files", &ReadPlan::unchecked_files,
              "Files that must be checked first. If there are any, the plan is incomplete.")
      .def("stored_bytes", &ReadPlan::stored_bytes, "begin"_a, "end"_a,
           "Return the number of bytes of the frames of the records from `begin` to `end`.")
      .def("by_file", &plan_by_file,
           nb::sig("def by_file(self) -> list[tuple[int, NDArray[numpy.int64]]]"),
           "Return each file with its ranges.")
      .def("continues", &ReadPlan::continues, "other"_a,
           "Return whether this is a single read that starts where the single read of `other` "
           "ends.");

  nb::class_<IndexSet>(m, "IndexSet",
                       "The indexes of files whose records are numbered consecutively.\n\n"
                       "A file must be checked for changes in each epoch before it is used.")
      .def(nb::new_(&open_set), "counts"_a,
           "Args:\n"
           "    counts: Number of records of each file.")
      .def("mark_checked", &bind_mark_checked, "file"_a, "index"_a, "epoch"_a,
           "Note that a file was checked in an epoch.\n\n"
           "The first call for a file opens its index, whose bytes must not change.")
      .def("unchecked", &bind_unchecked, "files"_a, "epoch"_a,
           "Return those of `files` that were not checked in the epoch or a later one.")
      .def("locate", &bind_locate, "numbers"_a, "epoch"_a, "Locate records.")
      .def("plan", &bind_plan, "numbers"_a, "epoch"_a, "gap"_a,
           "Plan the reads that fetch records.\n\n"
           "Args:\n"
           "    numbers: Numbers of the records, in any order.\n"
           "    epoch: Epoch in which the files must have been checked.\n"
           "    gap: Frames with at most this many bytes between them are read at once.");
}

}  // namespace

void bind_index(nb::module_& m) {
  m.attr("INDEX_HEADER_BYTES") = kIndexHeaderBytes;
  m.attr("INDEX_SIGNATURE") = nb::bytes(kIndexSignature.data(), kIndexSignature.size());
  nb::enum_<Compression>(m, "Compression", "Compression of a data file.")
      .value("none", Compression::none)
      .value("gzip", Compression::gzip)
      .value("zlib", Compression::zlib);

  nb::class_<IndexHeader>(m, "IndexHeader", "The header of an index file.")
      .def(nb::init<std::uint32_t, Compression, std::uint64_t, std::int64_t, std::uint64_t,
                    std::uint64_t>(),
           nb::kw_only(), "format"_a, "compression"_a, "data_bytes"_a, "data_mtime_ns"_a,
           "data_fingerprint"_a, "stream_end"_a)
      .def_ro("format", &IndexHeader::format, "Code of the record format; 0 is TFRecord.")
      .def_ro("compression", &IndexHeader::compression, "Compression of the data file.")
      .def_ro("records", &IndexHeader::records, "Number of records.")
      .def_ro("data_bytes", &IndexHeader::data_bytes, "Size of the data file.")
      .def_ro("data_mtime_ns", &IndexHeader::data_mtime_ns, "Modification time of the data file.")
      .def_ro("data_fingerprint", &IndexHeader::data_fingerprint,
              "Fingerprint of the content of the data file.")
      .def_ro("stream_end", &IndexHeader::stream_end, "Stream offset where the last record ends.");
  m.def("encode_index", &bind_encode_index, "header"_a, "starts"_a, "restarts"_a,
        "Return the bytes of an index file.\n\n"
        "Args:\n"
        "    header: Header of the file. Its number of records is ignored.\n"
        "    starts: Stream offset of each record's frame, ascending.\n"
        "    restarts: Points where decompression can start; [n, 2]: stream offset, file offset.");
  m.def(
      "read_index_header", [](const Buffer& file) { return open_index(file, true).header(); },
      "file"_a,
      "Check an index file and return its header.\n\n"
      "Raises:\n"
      "    ValueError: If the file is not a valid index. The message explains why.");
  m.def("read_index_restarts", &bind_read_index_restarts, "file"_a,
        "Return the points where decompression can start, as (stream offset, file offset).");
  m.def("locate_records", &bind_locate_records, "file"_a, "records"_a,
        "Return the stream offsets where records start and end.");
  bind_index_set(m);
}

}  // namespace tio
