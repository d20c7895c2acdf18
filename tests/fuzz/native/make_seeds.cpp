// Writes the seeds of the fuzz targets: make_seeds <folder> [<folder of TFRecord files>].
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "batch.h"
#include "encode.h"
#include "example/survey.h"
#include "records/framing.h"
#include "records/index.h"
#include "repair.h"
#include "seed_folder.h"
#include "tensor.h"
#include "written_tensors.h"

namespace tio::fuzz {
namespace {

using namespace test;
namespace fs = std::filesystem;

// ---- framing: options, window (2 bytes), offset, stream ----

void write_framing(Folder& folder, const std::string& stream) {
  folder.write(raw({0, 20, 0, 0}) + stream);
  folder.write(raw({3, 5, 0, 0}) + stream);
}

void write_made_framing(Folder& folder) {
  const std::string good = frame("") + frame("a") + frame("hello") + frame(std::string(40, 'x'));
  write_framing(folder, "");
  write_framing(folder, good);
  write_framing(folder, good.substr(0, good.size() - 3));
  write_framing(folder, good + std::string(7, '\0'));
  for (int options = 0; options < 16; ++options) {
    folder.write(raw({options, 30, 0, 3}) + good + frame("cut", 1000));
  }
  for (const std::uint64_t length : {std::uint64_t{1} << 40, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
    write_framing(folder, good + frame("ab", length));
    folder.write(raw({12, 30, 0, 0}) + frame("ab", length));
  }
}

// ---- frame_sweep: options, window (2 bytes), limit, stream ----

void write_frame_sweep(Folder& folder) {
  const std::string good = frame("") + frame("a") + frame("hello") + frame(std::string(40, 'x'));
  for (int options = 0; options < 32; options += 3) {
    folder.write(raw({options, 20, 0, 5}) + good);
    folder.write(raw({options, 90, 0, 30}) + good + "stray bytes" + good);
    folder.write(raw({options, 3, 0, 90}) + good + frame("cut", 1000) + good);
  }
}

// ---- packing: options, length of a row, number of documents, numbers ----

void write_packing(Folder& folder) {
  const std::string lengths = raw({3, 0, 9, 250, 8, 8, 1, 40, 255, 2});
  const std::string places = raw({0, 12, 3, 1, 0, 2, 250, 5, 30, 248, 1, 9});
  for (int options = 0; options < 256; options += 3) {
    folder.write(raw({options, 7, 10}) + lengths + places + places);
    folder.write(raw({options, 0, 5}) + lengths + places);
    folder.write(raw({options, 255, 3}) + places + lengths);
  }
}

// ---- index: options, then a file or gaps ----

void write_index(Folder& folder) {
  for (const std::size_t count : {0, 1, 2, 5, 40}) {
    for (const std::uint64_t step : {std::uint64_t{20}, std::uint64_t{3} << 31}) {
      std::vector<std::uint64_t> starts;
      for (std::size_t i = 0; i < count; ++i) starts.push_back(i * step);
      IndexHeader header;
      header.stream_end = count * step;
      const auto file = encode_index(header, starts);
      const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
      folder.write(raw({0}) + text);
      folder.write(raw({2}) + text);
    }
  }
  folder.write(raw({1}) + std::string(30, '\x10'));
  folder.write(raw({1}) + std::string(20, '\x10') + "\xff" + std::string(20, '\x05'));
}

// ---- examples: records as field 1 of a message ----

std::string batch(const std::vector<std::string>& records) {
  std::string out;
  for (const auto& record : records) out += delimited(1, record);
  return out;
}

std::string usual_entries() {
  return ints_entry("a", {1, 2, 300}) + ints_entry("b", {7}) + ints_entry("c", {1, 2, 3}) +
         floats_entry("d", {0.5F, 1.5F}) + floats_entry("e", {2.5F}) + floats_entry("g", {1, 2}) +
         ints_entry("other", {5}) + bytes_entry("s", {"word"}) + bytes_entry("t", {"four"}) +
         bytes_entry("u", {"x", "y"}) + ints_entry("h", {});
}

// Each is an entry of its own, and all are valid protobuf.
std::vector<std::string> unusual_entries() {
  const std::string one = feature(Kind::ints, packed_ints({1}));
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  return {
      entry("a", feature(Kind::ints, unpacked_ints({1, -1, 300}))),
      entry("a", feature(Kind::ints, unpacked_ints({1}) + packed_ints({2, 3}) + packed_ints({}))),
      entry("d", feature(Kind::floats, unpacked_floats({1}) + packed_floats({2, 3}))),
      entry("s", feature(Kind::bytes, bytes_values({"", "abc", std::string(200, 'x')}))),
      entry("a", one + number + one),
      entry("a", number + one + one),
      entry("d", one + number),
      entry("a", ""),
      entry("b", feature(Kind::ints, "")),
      entry("c", feature(Kind::ints, packed_ints({1, 2}) + unpacked_ints({3}))),
      delimited(1, delimited(2, one) + delimited(1, "a")),
      delimited(1, delimited(1, "a") + delimited(2, one) + delimited(2, one)),
      delimited(1, delimited(1, "a") + delimited(1, "b") + delimited(2, one)),
      delimited(1, delimited(2, one)),
      delimited(1, ""),
      group(5, varint_field(1, 1)),
      varint_field(7, 7),
      entry("a", varint_field(9, 1) + one + group(4, "")),
      entry("\xff", one),
      ints_entry("a", std::vector<std::int64_t>(40, 1)),
      ints_entry("a", std::vector<std::int64_t>(40, 1000)),
      ints_entry("b", {std::int64_t{-1}}),
      floats_entry("d", {65504, 65520, 1e-8F, -0.0F, 3e38F}),
  };
}

void write_made_examples(Folder& folder) {
  const std::string usual = example(usual_entries());
  folder.write(batch({usual}));
  folder.write(batch({usual, usual, ""}));
  folder.write(batch({usual + usual, example("") + example(ints_entry("a", {1}))}));
  folder.write(batch({nested_groups(98) + usual, nested_groups(101)}));
  for (const auto& unusual : unusual_entries()) {
    folder.write(batch({example(unusual)}));
    folder.write(batch({example(usual_entries() + unusual)}));
    folder.write(batch({example(ints_entry("a", {5}) + unusual + unusual), example(unusual)}));
  }
}

// ---- tensors: a message ----

// The values 1 and 0 in the typed list of each dtype.
std::string list_of(TensorType type) {
  switch (type) {
    case TensorType::float32: return delimited(5, joined<float>({1, 0}));
    case TensorType::float64: return delimited(6, joined<double>({1, 0}));
    case TensorType::string: return string_list({"one", "", "three"});
    case TensorType::complex64: return delimited(9, joined<float>({1, 0, 2, 0}));
    case TensorType::complex128: return delimited(12, joined<double>({1, 0, 2, 0}));
    case TensorType::int64: return varint_list(10, {1, -1});
    case TensorType::boolean: return varint_list(11, {1, 0});
    case TensorType::bfloat16:
    case TensorType::float16: return varint_list(13, {0x3c00, 0});
    case TensorType::uint32: return varint_list(16, {1, 0xffffffff});
    case TensorType::uint64: return varint_list(17, {1, -1});
    default: return varint_list(7, {1, 0, 100}) + varint_field(7, 2);
  }
}

void write_tensors(Folder& folder) {
  for (const auto& written : kWrittenTensors) {
    for (const char* hex : {written.scalar, written.empty, written.cube, written.filled}) {
      folder.write(from_hex(hex));
    }
    const std::string list = list_of(written.type);
    folder.write(head(written.type, {2, 2}) + list);
    folder.write(list + head(written.type, {3}) + content("") + list);
    folder.write(head(written.type, {10000}) + list + group(9, varint_field(1, 1)));
    folder.write(head(written.type, {}) + varint_list(7, {1}));
  }
  folder.write(head(TensorType::string, {2}) + content(raw({1, 2}) + "abc"));
  folder.write(head(TensorType::string, {3}) +
               content(varint(300) + raw({0, 0}) + std::string(300, 'x')));
  folder.write(head(TensorType::int8, {0, 3}) + shape({std::uint64_t{1} << 40}));
  folder.write(head(TensorType::int8, std::vector<std::uint64_t>(254, 1)));
  folder.write(head(TensorType::uint8, {}) + varint_list(7, {256}) + varint_field(3, 1));
  folder.write(varint_field(1, 6) +
               delimited(2, dim(2) + varint_field(3, 1) + delimited(2, delimited(2, "name"))));
}

// ---- encode: read from its end, so any bytes will do ----

void write_encode(Folder& folder) {
  for (const std::size_t size : {0, 10, 100, 400}) {
    for (const int step : {1, 7, 31, 101}) {
      std::string bytes;
      for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * step));
      folder.write(bytes);
    }
  }
}

// ---- JPEG markers: the most scans, a file ----

std::string jpeg_segment(int code, const std::string& body) {
  return raw({0xff, code, 0, static_cast<int>(body.size()) + 2}) + body;
}

void write_jpegs(Folder& folder) {
  const std::string gray = raw({8, 0, 17, 0, 33, 1, 1, 0x11, 0});
  const std::string color = raw({8, 0, 17, 0, 33, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0});
  const std::string whole = jpeg_segment(0xda, raw({1, 1, 0, 0, 63, 0})) + "data";
  const std::string mixed = jpeg_segment(0xda, raw({3, 1, 0, 2, 0, 3, 0, 0, 63, 0}));
  const std::string first = jpeg_segment(0xda, raw({1, 1, 0, 0, 0, 1})) + raw({5, 0xff, 0, 7});
  const std::string second = jpeg_segment(0xda, raw({1, 1, 0, 1, 63, 0})) + raw({0xff, 0xd0});
  const std::string third = jpeg_segment(0xda, raw({1, 1, 0, 0, 0, 0x10})) + "more";
  for (const std::string& body : {
           jpeg_segment(0xdb, "table") + jpeg_segment(0xc0, gray) + whole,
           jpeg_segment(0xe1, "Exif") + jpeg_segment(0xc0, color) + mixed,
           jpeg_segment(0xc2, gray) + first + second + third,
           jpeg_segment(0xdd, raw({0, 8})) + jpeg_segment(0xc1, gray) + whole + raw({0xff, 0xd0}),
           jpeg_segment(0xc9, gray) + whole,
       }) {
    folder.write(raw({7, 0xff, 0xd8}) + body + raw({0xff, 0xd9}));
  }
}

// ---- sequences: records as field 1 of a message ----

std::string usual_lists() {
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  const std::string word = feature(Kind::bytes, bytes_values({"word"}));
  const std::string pair = feature(Kind::ints, packed_ints({1, 2}));
  const std::string one = feature(Kind::ints, packed_ints({1}));
  return list_entry("a", {one, pair, feature(Kind::ints, "")}) + list_entry("b", {one, one}) +
         list_entry("c", {pair, pair}) + list_entry("d", {number}) +
         list_entry("e", {number, number}) + list_entry("other", {one}) +
         list_entry("s", {word, word}) + list_entry("t", {word}) +
         list_entry("u", {feature(Kind::bytes, bytes_values({"x", ""}))});
}

// Each is an entry of its own, and all are valid protobuf.
std::vector<std::string> unusual_lists() {
  const std::string one = feature(Kind::ints, packed_ints({1}));
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  const std::string key = delimited(1, "a");
  const std::string list = steps({one, one});
  return {
      list_entry("a", {}),
      list_entry("a", {"", one, ""}),
      list_entry("a", std::vector<std::string>(20, one)),
      list_entry("a", {feature(Kind::ints, unpacked_ints({1, 300})), one + one, number + one}),
      list_entry("a",
                 {feature(Kind::ints, packed_ints({1}) + packed_ints({2})), varint_field(9, 1)}),
      list_entry("a", {feature(Kind::ints, packed_ints(std::vector<std::int64_t>(150, 7))), one}),
      list_entry("a", {feature(Kind::ints, packed_ints({-1, -1})), one + group(9, "")}),
      list_entry("d", {number + one, feature(Kind::floats, unpacked_floats({1, 2}))}),
      list_entry("s", {feature(Kind::bytes, bytes_values({"", std::string(200, 'x')})), ""}),
      list_entry("b", {number, one}),
      list_entry("c", {feature(Kind::ints, packed_ints({1, 2, 3}))}),
      entry("a", varint_field(7, 1) + list + group(5, varint_field(1, 1)) + delimited(2, "x")),
      delimited(1, delimited(2, list) + key),
      delimited(1, key + delimited(2, list) + delimited(2, steps({one}))),
      delimited(1, key + delimited(1, "b") + delimited(2, list)),
      delimited(1, key),
      delimited(1, ""),
      group(5, varint_field(1, 1)),
      varint_field(7, 7),
  };
}

void write_sequences(Folder& folder) {
  const std::string usual = sequence(usual_entries(), usual_lists());
  folder.write(batch({usual}));
  folder.write(batch({usual, "", usual}));
  folder.write(batch({example(usual_entries()), delimited(2, usual_lists())}));
  folder.write(batch({usual + usual, delimited(2, usual_lists()) + example(usual_entries())}));
  for (const auto& unusual : unusual_lists()) {
    folder.write(batch({delimited(2, unusual)}));
    folder.write(batch({sequence(ints_entry("b", {1}), usual_lists() + unusual), usual}));
    folder.write(batch({delimited(2, unusual + unusual) + delimited(2, list_entry("a", {}))}));
  }
  for (const auto& unusual : unusual_entries()) {
    folder.write(batch({sequence(unusual, list_entry("a", {feature(Kind::ints, "")}))}));
  }
}

// ---- survey: the same records, and values of every format ----

void write_survey(Folder& folder) {
  write_made_examples(folder);
  write_sequences(folder);
  const std::string tensor = head(TensorType::float32, {1}) + content("abcd");
  for (const std::string& value :
       {std::string("\xff\xd8\xff and so on"),
        std::string("\x89PNG\r\n\x1a\n and so on"),
        std::string("GIF89a and"),
        std::string("BM and so on"),
        raw({'I', 'I', '*', 0, 8, 0}),
        std::string("RIFF....WEBPVP8"),
        std::string("RIFF....WAVE"),
        std::string("fLaC"),
        std::string("OggS"),
        std::string("ID3"),
        std::string("\x93NUMPY"),
        raw({'P', 'K', 3, 4}),
        raw({0x1f, 0x8b, 8}),
        tensor,
        tensor + varint_list(7, {1}),
        std::string("text, h\xc3\xa9h\xc3\xa9, \xe2\x82\xac \xf0\x9f\x98\x80\n"),
        std::string("\xed\xa0\x80"),
        std::string("\xc0\x80"),
        std::string("\xf4\x90\x80\x80"),
        std::string(70, 'x') + "\x7f"}) {
    folder.write(
        batch({example(bytes_entry("a", {value, ""})), example(bytes_entry("a", {value}))}));
    folder.write(
        batch({sequence("", list_entry("a", {feature(Kind::bytes, bytes_values({value}))}))}));
  }
}

// ---- lists of examples: records as field 1 of a message ----

void write_example_lists(Folder& folder) {
  const std::string usual = example(usual_entries());
  const std::string list = delimited(1, usual) + delimited(2, usual) + delimited(1, "");
  folder.write(batch({list, "", delimited(1, usual)}));
  folder.write(batch({list + delimited(2, "") + delimited(2, usual), list}));
  folder.write(batch({list + varint_field(1, 1) + group(2, varint_field(1, 1)) + list}));
  folder.write(batch({list, list.substr(0, list.size() - 1), list}));
  folder.write(batch({nested_groups(98) + list, nested_groups(101)}));
}

// ---- files that TensorFlow wrote ----

void write_file(const fs::path& path, Folder& framing, Folder& examples, Folder& sequences) {
  std::ifstream in(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (file.size() < 4096) write_framing(framing, file);
  const FrameScan scan = scan_frames(std::as_bytes(std::span(file)), 0, file.size());
  std::vector<std::string> records;
  for (std::size_t i = 0; i < scan.starts.size() && i < 12; ++i) {
    const std::uint64_t end = i + 1 < scan.starts.size() ? scan.starts[i + 1] : scan.next;
    records.push_back(file.substr(scan.starts[i] + kFrameHeaderBytes,
                                  end - scan.starts[i] - kFrameOverheadBytes));
    for (Folder* folder : {&examples, &sequences}) {
      if (records.back().size() < 2000) folder->write(batch({records.back()}));
      if (i > 0 && records[i].size() + records[i - 1].size() < 2000) {
        folder->write(batch({records[i - 1], records[i]}));
      }
    }
  }
}

}  // namespace
}  // namespace tio::fuzz

int main(int count, char** arguments) {
  using namespace tio::fuzz;
  if (count < 2) {
    std::cerr << "usage: make_seeds <folder> [<folder of TFRecord files>]\n";
    return 2;
  }
  const fs::path root(arguments[1]);
  Folder framing(root / "framing");
  Folder frame_sweep(root / "frame_sweep");
  Folder index(root / "index");
  Folder packing(root / "packing");
  Folder examples(root / "example");
  Folder lists(root / "example_list");
  Folder sequences(root / "sequence");
  Folder surveys(root / "survey");
  Folder tensors(root / "tensor_proto");
  Folder encode(root / "encode");
  Folder jpegs(root / "jpeg_markers");
  write_made_framing(framing);
  write_frame_sweep(frame_sweep);
  write_index(index);
  write_packing(packing);
  write_made_examples(examples);
  write_example_lists(lists);
  write_sequences(sequences);
  write_survey(surveys);
  write_tensors(tensors);
  write_encode(encode);
  write_jpegs(jpegs);
  if (count < 3 || !fs::is_directory(arguments[2])) return 0;
  for (const auto& file : fs::directory_iterator(arguments[2])) {
    if (file.path().extension() != ".tfrecord") continue;
    write_file(file.path(), framing, examples, sequences);
  }
  return 0;
}
