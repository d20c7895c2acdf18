#include "records/index.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "records/framing.h"
#include "records/index_set.h"
#include "records/record_number.h"

namespace tio {
namespace {

// ---- one index ----

nb::bytes bind_encode_index(const IndexHeader& header, const Vector<std::uint64_t>& starts,
                            const Sequence<Gap>& gaps, const Buffer& seek_points) {
  const std::vector<Gap> gap_table = copy_items<Gap>(gaps);
  std::vector<std::byte> file;
  {
    const ReleasedGil unlocked;
    file = encode_index(header, span_of(starts), gap_table, bytes_of(seek_points));
  }
  return nb::bytes(file.data(), file.size());
}

Index check_index(const std::shared_ptr<Index>& index, const std::string& reason) {
  if (index == nullptr) throw nb::value_error(reason.c_str());
  return std::move(*index);
}

Index bind_open_index(Buffer file) {
  const Bytes bytes = bytes_of(file);
  Owner owner = owner_of(std::move(file));
  std::string reason;
  std::shared_ptr<Index> index;
  {
    const ReleasedGil unlocked;
    index = Index::open(bytes, owner, reason);
  }
  return check_index(index, reason);
}

Index bind_finish_scan(IndexScan& self) {
  std::string reason;
  const auto index = self.finish(reason);
  return check_index(index, reason);
}

void bind_one_index(nb::module_& m) {
  nb::enum_<GapKind>(m, "GapKind", "Reason why a part of a stream has no records.")
      .value("damaged", GapKind::damaged, "The data is damaged.")
      .value("left_out", GapKind::left_out, "The index leaves the records out.");

  nb::class_<Gap>(m, "Gap", "A part of a stream without records.")
      .def(nb::init<std::uint64_t, std::uint64_t, GapKind>(), "begin"_a, "end"_a, "kind"_a)
      .def_ro("begin", &Gap::begin, "Stream offset where it begins.")
      .def_ro("end", &Gap::end, "Stream offset where it ends.")
      .def_ro("kind", &Gap::kind, "Reason.");

  nb::class_<IndexHeader>(m, "IndexHeader", "The header of an index file.")
      .def(nb::init<std::uint32_t, Compression, std::uint64_t, std::int64_t, std::uint64_t,
                    std::uint64_t, std::uint64_t, std::uint64_t>(),
           nb::kw_only(), "format"_a, "compression"_a, "data_bytes"_a, "data_mtime_ns"_a,
           "data_fingerprint"_a, "stream_end"_a, "header_bytes"_a = 0, "footer_bytes"_a = 0)
      .def_ro("format", &IndexHeader::format, "Code of the record format; 0 is TFRecord.")
      .def_ro("compression", &IndexHeader::compression, "Compression of the data file.")
      .def_ro("records", &IndexHeader::records, "Number of records.")
      .def_ro("data_bytes", &IndexHeader::data_bytes, "Size of the data file.")
      .def_ro("data_mtime_ns", &IndexHeader::data_mtime_ns, "Modification time of the data file.")
      .def_ro("data_fingerprint", &IndexHeader::data_fingerprint,
              "Fingerprint of the content of the data file.")
      .def_ro("stream_end", &IndexHeader::stream_end, "Stream offset where the last record ends.")
      .def_ro("header_bytes", &IndexHeader::header_bytes,
              "Number of bytes of the stream before the first record.")
      .def_ro("footer_bytes", &IndexHeader::footer_bytes,
              "Number of bytes of the stream after the last record.");

  nb::class_<Index>(m, "Index",
                    "An index file that was checked.\n\n"
                    "Its offsets are in memory, or are read from the file by pages.")
      .def(nb::new_(&bind_open_index), "file"_a,
           "Check an index file in memory, whose bytes must not change.\n\n"
           "Raises:\n"
           "    ValueError: If the bytes are not a valid index. The message explains why.")
      .def_prop_ro("header", &Index::header, "Header.")
      .def_prop_ro("gaps", &Index::gaps, "Gaps, ascending.")
      .def_prop_ro(
          "seek_points",
          [](const Index& self) {
            return std::make_pair(self.seek_points().offset, self.seek_points().size);
          },
          "Offset and size of the section of seek points in the index file; size 0: none.")
      .def_prop_ro("stream_bytes", &Index::stream_bytes, "Size of the decompressed stream.");

  nb::class_<IndexScan>(m, "IndexScan",
                        "Checks an index file that is read from front to back in pieces.")
      .def(nb::init<std::uint64_t>(), "file_bytes"_a,
           "Args:\n"
           "    file_bytes: Size of the file.")
      .def(
          "add", [](IndexScan& self, const Buffer& bytes) { return self.add(bytes_of(bytes)); },
          Unlocked(), "bytes"_a,
          "Take the next bytes of the file. Return False if the file is not valid.")
      .def("finish", &bind_finish_scan,
           "Return the index, whose offsets remain in the file. Call this once.\n\n"
           "Raises:\n"
           "    ValueError: If the file is not a valid index. The message explains why.");

  m.def("encode_index", &bind_encode_index, "header"_a, "starts"_a, "gaps"_a, "seek_points"_a,
        "Return the bytes of an index file.\n\n"
        "Args:\n"
        "    header: Header of the file. Its number of records is ignored.\n"
        "    starts: Stream offset of each record's frame, ascending.\n"
        "    gaps: Parts of the stream without records, ascending.\n"
        "    seek_points: Section of seek points; empty: there is none.");
}

// ---- many indexes ----

IndexSet open_set(const Numbers& counts, std::size_t most_pages) {
  if (most_pages < IndexSet::kLeastPages) throw nb::value_error("most_pages must be at least 4");
  auto set = IndexSet::open(span_of(counts), most_pages);
  if (!set)
    throw nb::value_error("counts must not be negative, and their sum must be at most 2^40");
  return std::move(*set);
}

std::size_t check_file(const IndexSet& set, std::int64_t file) {
  if (file < 0 || static_cast<std::size_t>(file) >= set.files()) {
    throw nb::index_error("the file does not exist");
  }
  return static_cast<std::size_t>(file);
}

void bind_mark_checked(IndexSet& self, std::int64_t file, nb::handle_t<Index> index,
                       std::uint64_t epoch) {
  if (!self.mark_checked(check_file(self, file), share(index), epoch)) {
    throw nb::value_error("it has another number of records");
  }
}

std::vector<std::int64_t> bind_unchecked(const IndexSet& self, const Sequence<std::int64_t>& files,
                                         std::uint64_t epoch) {
  std::vector<std::int64_t> unchecked;
  for (const std::int64_t file : Items<std::int64_t>(files).values()) {
    if (!self.is_checked(check_file(self, file), epoch)) unchecked.push_back(file);
  }
  return unchecked;
}

bool bind_find(const IndexSet& self, FrameLookup& lookup, std::uint64_t epoch) {
  Lookup found{};
  {
    const ReleasedGil unlocked(lookup.numbers.size() >= kManyNumbers);
    found = self.find(lookup, epoch);
  }
  if (found == Lookup::no_such_record) {
    const std::string count = std::to_string(self.records());
    throw nb::index_error(
        ("a record number is out of range: there are " + count + " records").c_str());
  }
  return found == Lookup::found;
}

bool bind_add_pages(IndexSet& self, const MissingPages& missing, const Buffer& buffer) {
  check_file(self, missing.file);
  const ReleasedGil unlocked;
  return self.add_pages(missing, bytes_of(buffer));
}

FrameLookup open_lookup(const Numbers& numbers) { return FrameLookup(span_of(numbers)); }

const FrameLookup& check_found(const FrameLookup& lookup) {
  if (!lookup.is_found()) throw nb::value_error("the frames must be found first");
  return lookup;
}

auto bind_locations(const FrameLookup& self) {
  FrameLocations locations = check_found(self).locations();
  return std::make_tuple(to_numpy(std::move(locations.files)),
                         to_numpy(std::move(locations.starts)),
                         to_numpy(std::move(locations.ends)));
}

ReadPlan bind_plan(const FrameLookup& self, std::int64_t gap) {
  if (gap < 0) throw nb::value_error("gap must not be negative");
  std::optional<ReadPlan> plan;
  {
    const ReleasedGil unlocked(self.numbers.size() >= kManyNumbers);
    plan = check_found(self).plan(gap);
  }
  if (!plan) throw nb::value_error("the records are too large to be read at once");
  return std::move(*plan);
}

ReadPlan plan_of_frames(const Numbers& starts, const Numbers& sizes) {
  const auto first = span_of(starts);
  const auto bytes = span_of(sizes);
  if (first.size() != bytes.size())
    throw nb::value_error("each frame must have a start and a size");
  ReadPlan plan;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::int64_t end = 0;
    if (first[i] < 0 || bytes[i] < static_cast<std::int64_t>(kFrameOverheadBytes) ||
        __builtin_add_overflow(first[i], bytes[i], &end)) {
      throw nb::value_error("a frame must lie in the buffer");
    }
    plan.buffer_bytes = std::max(plan.buffer_bytes, end);
    plan.numbers.push_back(static_cast<std::int64_t>(i));
  }
  plan.frame_starts.assign(first.begin(), first.end());
  plan.frame_sizes.assign(bytes.begin(), bytes.end());
  return plan;
}

ReadPlan plan_of_ranges(const Numbers& files, const Numbers& starts, const Numbers& sizes,
                        std::int64_t gap) {
  if (files.size() != starts.size() || files.size() != sizes.size()) {
    throw nb::value_error("each range must have a file, a start and a size");
  }
  std::vector<std::int64_t> numbers(files.size());
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  FrameLookup lookup(numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t file = files.data()[i];
    const std::int64_t start = starts.data()[i];
    std::int64_t end = 0;
    if (file < 0 || start < 0 || sizes.data()[i] < 0 ||
        __builtin_add_overflow(start, sizes.data()[i], &end)) {
      throw nb::value_error("a range must lie in a file");
    }
    lookup.frames.push_back({i, static_cast<std::size_t>(file), numbers[i], start, end});
  }
  std::ranges::sort(lookup.frames, {}, [](const FrameLookup::Frame& frame) {
    return std::tuple(frame.file, frame.start, frame.position);
  });
  return bind_plan(lookup, gap);
}

ReadPlan bind_join_reads(const Sequence<ReadPlan>& plans) {
  const Items<const ReadPlan*> items(plans);
  auto joined = join_reads(items.values());
  if (!joined) throw nb::value_error("the records are too large to be read at once");
  return std::move(*joined);
}

template <class Object>
NumpyMatrix<const std::int64_t> ranges_of(Object& self) {
  static_assert(sizeof(Range) == 3 * sizeof(std::int64_t));
  const auto* data = reinterpret_cast<const std::int64_t*>(self.ranges.data());
  return {data, {self.ranges.size(), 3}, nb::find(self)};
}

nb::list plan_by_file(ReadPlan& self) {
  const nb::object ranges = nb::cast(ranges_of(self));
  nb::list files;
  for (std::size_t i = 0; i < self.files.size(); ++i) {
    const nb::slice part(self.range_bounds[i], self.range_bounds[i + 1]);
    files.append(nb::make_tuple(self.files[i], ranges[part]));
  }
  return files;
}

void bind_index_set(nb::module_& m) {
  nb::class_<ReadPlan>(m, "ReadPlan", nb::is_weak_referenceable(),
                       "A plan of the reads that fetch the frames of some records into a buffer.")
      .def_static("of_frames", &plan_of_frames, "starts"_a, "sizes"_a,
                  "Return the plan of frames that are in a buffer already, numbered from 0.\n\n"
                  "Args:\n"
                  "    starts: Offset of each frame in the buffer; int64 [n].\n"
                  "    sizes: Bytes of each record's frame; int64 [n].")
      .def_static("of_ranges", &plan_of_ranges, "files"_a, "starts"_a, "sizes"_a, "gap"_a,
                  "Return the plan of parts of files, numbered from 0 in place of records.\n\n"
                  "Args:\n"
                  "    files: Number of each part's file; int64 [n].\n"
                  "    starts: Offset of each part in the stream of its file; int64 [n].\n"
                  "    sizes: Bytes of each part; int64 [n].\n"
                  "    gap: Parts with at most this many bytes between them are read at once.")
      .def_static("joined", &bind_join_reads, "plans"_a,
                  "Return the reads of several plans, by file, into a buffer that has theirs one\n"
                  "after the other. The plan has no records.")
      .def_prop_ro("numbers", array_of(&ReadPlan::numbers), "Numbers of the records; int64 [n].")
      .def_prop_ro("frame_sizes", array_of(&ReadPlan::frame_sizes),
                   "Bytes of each record's frame; int64 [n].")
      .def_prop_ro("frame_starts", array_of(&ReadPlan::frame_starts),
                   "Offset of each frame in the buffer; int64 [n].")
      .def_ro("files", &ReadPlan::files, "Numbers of the files that are read, ascending.")
      .def_ro("range_bounds", &ReadPlan::range_bounds,
              "Number of the first range of each file, and the number of ranges; [files + 1].")
      .def_prop_ro("ranges", &ranges_of<ReadPlan>,
                   "Ranges to read; int64 [reads, 3]: file offset, size, offset in the buffer.")
      .def_ro("buffer_bytes", &ReadPlan::buffer_bytes, "Size of the buffer.")
      .def("stored_bytes", &ReadPlan::stored_bytes, "begin"_a, "end"_a,
           "Return the number of bytes of the frames of the records from `begin` to `end`.")
      .def("by_file", &plan_by_file,
           nb::sig("def by_file(self) -> list[tuple[int, NDArray[numpy.int64]]]"),
           "Return each file with its ranges.");

  nb::class_<MissingPages>(m, "MissingPages", "Pages of an index file that must be read.")
      .def_ro("file", &MissingPages::file, "Number of the file.")
      .def_prop_ro("ranges", &ranges_of<MissingPages>,
                   "Ranges to read; int64 [reads, 3]: file offset, size, offset in the buffer.")
      .def_ro("bytes", &MissingPages::bytes, "Size of the buffer.");

  nb::class_<FrameLookup>(m, "FrameLookup",
                          "The frames of some records, which `IndexSet.find` finds.")
      .def(nb::new_(&open_lookup), "numbers"_a,
           "Args:\n"
           "    numbers: Numbers of the records, in any order.")
      .def_ro("unchecked_files", &FrameLookup::unchecked_files,
              "Files that must be checked before the lookup is continued.")
      .def_ro("missing", &FrameLookup::missing,
              "Pages that must be added before the lookup is continued.")
      .def_ro("damaged_file", &FrameLookup::damaged_file,
              "Number of a file with an entry that contradicts its index, if there is one.")
      .def("locations", &bind_locations,
           "Return the file of each record, and the stream offsets where its frame starts and\n"
           "ends, in the requested order.")
      .def("plan", &bind_plan, "gap"_a,
           "Plan the reads that fetch the records.\n\n"
           "Args:\n"
           "    gap: Frames with at most this many bytes between them are read at once.");

  nb::class_<IndexSet>(m, "IndexSet",
                       "The indexes of files whose records are numbered consecutively.\n\n"
                       "A file must be checked for changes in each epoch before it is used.")
      .def(nb::new_(&open_set), "counts"_a, "most_pages"_a = IndexSet::kMostPages,
           "Args:\n"
           "    counts: Number of records of each file.\n"
           "    most_pages: Number of pages of index files that are kept in memory.")
      .def("mark_checked", &bind_mark_checked, "file"_a, "index"_a, "epoch"_a,
           "Note that a file was checked in an epoch. The first call for a file takes its index.")
      .def("unchecked", &bind_unchecked, "files"_a, "epoch"_a,
           "Return those of `files` that were not checked in the epoch or a later one.")
      .def("find", &bind_find, "lookup"_a, "epoch"_a,
           "Find the frames of a lookup. Return False if the lookup must be continued by another\n"
           "call: it has files to check or pages to add.\n\n"
           "Args:\n"
           "    lookup: The lookup.\n"
           "    epoch: Epoch in which the files must have been checked.")
      .def("add_pages", &bind_add_pages, "missing"_a, "buffer"_a,
           "Take pages that were read. Return False if one differs from the indexed page.\n\n"
           "Args:\n"
           "    missing: The pages.\n"
           "    buffer: Bytes that were read by its ranges.");
}

}  // namespace

void bind_index(nb::module_& m) {
  m.attr("RECORD_BITS") = kRecordBits;
  m.attr("INDEX_HEADER_BYTES") = kIndexHeaderBytes;
  m.attr("INDEX_SIGNATURE") = nb::bytes(kIndexSignature.data(), kIndexSignature.size());
  nb::enum_<Compression>(m, "Compression", "Compression of a data file.")
      .value("none", Compression::none)
      .value("gzip", Compression::gzip)
      .value("zlib", Compression::zlib)
      .value("zstd", Compression::zstd);

  bind_one_index(m);
  bind_index_set(m);
}

}  // namespace tio
