// Decoding TensorProtos: messages of TensorFlow, every valid encoding, and the reasons of rejected
// ones.
#include <complex>
#include <limits>
#include <optional>

#include "check.h"
#include "encode.h"
#include "example/tensor_proto.h"
#include "tensor.h"
#include "written_tensors.h"

namespace tio::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;
using enum TensorType;

template <class T>
using Result = std::optional<std::vector<T>>;

template <class T>
Result<T> read(const std::string& message, TensorType type) {
  const ReadTensor tensor = read_tensor(message, type);
  CHECK_EQ(tensor.good, tensor.reason.empty());
  if (!tensor.good) return std::nullopt;
  std::vector<T> values;
  for (const auto& value : tensor.values()) {
    if constexpr (std::is_same_v<T, std::string>) {
      values.push_back(value);
    } else {
      values.push_back(load<T>(exact(value), 0));
    }
  }
  return values;
}

Result<std::int32_t> int32s(const std::string& message) {
  return read<std::int32_t>(message, int32);
}
Result<std::string> strings(const std::string& message) {
  return read<std::string>(message, TensorType::string);
}

void check_rejected(const std::string& message, TensorType type, const std::string& why) {
  const ReadTensor tensor = read_tensor(message, type);
  CHECK_EQ_IN(tensor.good, false, message);
  if (tensor.reason.find(why) == std::string::npos) CHECK_EQ_IN(tensor.reason, why, message);
}

// ---- messages written by TensorFlow ----

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

struct Wanted {
  Strings cube;  // the four values of all dtypes
  Strings filled;
};

template <class T>
Wanted wanted(const std::vector<T>& cube, T filled) {
  Wanted out;
  for (const auto value : cube) out.cube.push_back(little_endian(value));
  out.filled.assign(4, little_endian(filled));
  return out;
}

Wanted wanted_of(TensorType type) {
  switch (type) {
    case float32: return wanted<float>({1.5F, -2, 0, 100}, 7.5F);
    case float64: return wanted<double>({1.5, -2, 0, 100}, 7.5);
    case int32: return wanted<std::int32_t>({1, -2, 0, 100}, -3);
    case uint8: return wanted<std::uint8_t>({1, 2, 0, 100}, 200);
    case int16: return wanted<std::int16_t>({1, -2, 0, 100}, -3);
    case int8: return wanted<std::int8_t>({1, -2, 0, 100}, -3);
    case TensorType::string: return {{"a", "bc", "", {"\0\xff", 2}}, Strings(4, "abc")};
    case complex64: return wanted<Complex64>({{1.5F, 0.5F}, -2, {0, -1}, {100, 3}}, {1, 2});
    case int64: return wanted<std::int64_t>({1, -2, 0, 100}, -3);
    case boolean: return wanted<std::uint8_t>({1, 0, 0, 1}, 1);
    case bfloat16: return wanted<std::uint16_t>({0x3fc0, 0xc000, 0, 0x42c8}, 0x40f0);
    case uint16: return wanted<std::uint16_t>({1, 2, 0, 100}, 60000);
    case complex128: return wanted<Complex128>({{1.5, 0.5}, -2, {0, -1}, {100, 3}}, {1, 2});
    case float16: return wanted<std::uint16_t>({0x3e00, 0xc000, 0, 0x5640}, 0xc780);
    case uint32: return wanted<std::uint32_t>({1, 2, 0, 100}, 0xfffffffe);
    case uint64: return wanted<std::uint64_t>({1, 2, 0, 100}, ~std::uint64_t{1});
  }
  return {};
}

void check_written(const char* hex, TensorType type, const Ints& dims, const Strings& values) {
  const ReadTensor tensor = read_tensor(from_hex(hex), type);
  CHECK_EQ_IN(tensor.reason, "", hex);
  CHECK_EQ_IN(tensor.header.dims, dims, hex);
  CHECK_EQ_IN(tensor.header.count, values.size(), hex);
  CHECK_EQ_IN(tensor.header.type, type, hex);
  CHECK_EQ_IN(tensor.values(), values, hex);
}

void test_written_by_tensorflow() {
  CHECK_EQ(std::size(kWrittenTensors), std::size_t{16});
  for (const auto& written : kWrittenTensors) {
    const TensorType type = written.type;
    const Wanted values = wanted_of(type);
    const std::string scalar = type == TensorType::string ? "scalar" : values.cube[0];
    check_written(written.scalar, type, {}, {scalar});
    check_written(written.empty, type, {2, 0}, {});
    check_written(written.cube, type, {1, 2, 2}, values.cube);
    check_written(written.filled, type, {2, 2}, values.filled);
    for (const auto& other : kWrittenTensors) {
      if (other.type == type) continue;
      check_rejected(from_hex(written.cube), other.type, "the dtype of the tensor is ");
    }
  }
}

// ---- lists ----

void test_list_spellings() {
  const std::string start = head(int32, {4});
  const Result<std::int32_t> all = {{1, -1, 300, 4}};
  CHECK_EQ(int32s(start + varint_list(7, {1, -1, 300, 4})), all);
  CHECK_EQ(int32s(varint_list(7, {1, -1}) + start + varint_list(7, {300, 4})), all);
  CHECK_EQ(int32s(start + varint_field(7, 1) + varint_list(7, {-1, 300}) + varint_field(7, 4) +
                  varint_list(7, {})),
           all);
  CHECK_EQ(int32s(start + delimited(7, varint(1, 9) + varint(0xffffffff) + varint(300, 10) +
                                           varint((std::uint64_t{5} << 32) + 4))),
           all);
  CHECK_EQ(read<float>(head(float32, {3}) + delimited(5, joined<float>({1, 2})) +
                           field_tag(5, wire::fixed32) + little_endian(3.0F),
                       float32),
           (Result<float>{{1, 2, 3}}));
  CHECK_EQ(read<double>(head(float64, {2}) + field_tag(6, wire::fixed64) + little_endian(1.0) +
                            delimited(6, joined<double>({2})),
                        float64),
           (Result<double>{{1, 2}}));
  CHECK_EQ(read<Complex64>(head(complex64, {2}) + delimited(9, joined<float>({1, 2, 3})) +
                               field_tag(9, wire::fixed32) + little_endian(4.0F),
                           complex64),
           (Result<Complex64>{{{1, 2}, {3, 4}}}));
  CHECK_EQ(
      read<std::uint8_t>(head(boolean, {4}) + delimited(11, varint(0) + varint(2) + varint(256) +
                                                                varint(std::uint64_t{1} << 63)),
                         boolean),
      (Result<std::uint8_t>{{0, 1, 1, 1}}));
  CHECK_EQ(strings(string_list({"a"}) + head(TensorType::string, {3}) + string_list({"", "bc"})),
           (Result<std::string>{{"a", "", "bc"}}));
}

void test_long_list() {
  Ints values;
  std::vector<std::int16_t> narrow;
  for (std::int64_t i = 0; i < 1000; ++i) {
    values.push_back(i * 60 - 30000);
    narrow.push_back(static_cast<std::int16_t>(values.back()));
  }
  const std::string message = head(int16, {10, 100}) + varint_list(7, values);
  CHECK_EQ(read<std::int16_t>(message, int16), Result<std::int16_t>(narrow));
}

void test_short_lists() {
  CHECK_EQ(int32s(head(int32, {5}) + varint_list(7, {1, 2})),
           (Result<std::int32_t>{{1, 2, 2, 2, 2}}));
  CHECK_EQ(int32s(head(int32, {3})), (Result<std::int32_t>{{0, 0, 0}}));
  CHECK_EQ(
      read<Complex128>(head(complex128, {3}) + delimited(12, joined<double>({1, 2})), complex128),
      (Result<Complex128>{{{1, 2}, {1, 2}, {1, 2}}}));
  CHECK_EQ(strings(head(TensorType::string, {4}) + string_list({"x", "ab"})),
           (Result<std::string>{{"x", "ab", "ab", "ab"}}));
  CHECK_EQ(strings(head(TensorType::string, {3}) + string_list({"x", ""})),
           (Result<std::string>{{"x", "", ""}}));
  CHECK_EQ(strings(head(TensorType::string, {2})), (Result<std::string>{{"", ""}}));
}

void test_wrong_lists() {
  const std::string many = "the tensor has 2 values, but its shape allows only 1";
  check_rejected(head(int32, {1}) + varint_list(7, {1, 2}), int32, many);
  check_rejected(head(int32, {}) + varint_list(7, {1}) + varint_field(7, 2), int32, many);
  check_rejected(head(TensorType::string, {1}) + string_list({"", ""}), TensorType::string, many);
  check_rejected(head(int32, {0}) + varint_list(7, {1}), int32,
                 "the tensor has 1 value, but its shape allows only 0");
  for (const std::size_t count : {1, 3}) {
    check_rejected(head(complex64, {2}) + delimited(9, joined(std::vector<float>(count))),
                   complex64, "no imaginary part");
  }
  check_rejected(head(float32, {2}) + varint_list(7, {1, 2}), float32, "the list of another dtype");
  CHECK_EQ(read<float>(head(float32, {2}) + varint_list(7, {1, 2}) + varint_list(16, {3}) +
                           delimited(5, joined<float>({4})),
                       float32),
           (Result<float>{{4, 4}}));
}

void check_range(TensorType type, std::uint32_t field, std::int64_t least, std::int64_t most) {
  const auto message = [&](std::int64_t value) {
    return head(type, {}) + varint_field(field, static_cast<std::uint64_t>(value));
  };
  for (const std::int64_t value : {least, most}) {
    const ReadTensor tensor = read_tensor(message(value), type);
    CHECK_EQ_IN(tensor.reason, "", value);
    const std::size_t size = tensor_element_bytes(type);
    CHECK_EQ_IN(tensor.values(), Strings{little_endian(value).substr(0, size)}, value);
  }
  for (const std::int64_t value : {least - 1, most + 1}) {
    check_rejected(message(value), type, "the value " + std::to_string(value) + " does not fit");
  }
}

void test_ranges() {
  check_range(int8, 7, -128, 127);
  check_range(uint8, 7, 0, 255);
  check_range(int16, 7, -32768, 32767);
  check_range(uint16, 7, 0, 65535);
  check_range(float16, 13, 0, 65535);
  check_range(bfloat16, 13, 0, 65535);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_EQ(read<std::int64_t>(head(int64, {2}) + varint_list(10, {kMost, -kMost - 1}), int64),
           (Result<std::int64_t>{{kMost, -kMost - 1}}));
  CHECK_EQ(read<std::uint64_t>(head(uint64, {}) + varint_list(17, {-1}), uint64),
           (Result<std::uint64_t>{{~std::uint64_t{0}}}));
  CHECK_EQ(
      read<std::uint32_t>(
          head(uint32, {2}) + varint_list(16, {0xffffffff, (std::int64_t{1} << 32) + 5}), uint32),
      (Result<std::uint32_t>{{0xffffffff, 5}}));
}

// ---- tensor_content ----

void test_content() {
  const std::string pair = joined<std::int32_t>({5, 6});
  const std::string start = head(int32, {2});
  const Result<std::int32_t> read_pair = {{5, 6}};
  const Result<std::int32_t> typed = {{1, 1}};
  CHECK_EQ(int32s(start + content(pair) + varint_list(7, {1})), read_pair);
  CHECK_EQ(int32s(start + varint_list(7, {1, 2, 3}) + content(pair)), read_pair);
  CHECK_EQ(int32s(start + content("abc") + content(pair)), read_pair);
  CHECK_EQ(int32s(start + content(pair) + content("") + varint_list(7, {1})), typed);
  CHECK_EQ(int32s(start + content("abc") + content("") + varint_list(7, {1})), typed);
  CHECK_EQ(int32s(start + content("")), (Result<std::int32_t>{{0, 0}}));
  for (const std::size_t size : {1, 7, 9, 12}) {
    check_rejected(start + content(std::string(size, 'x')), int32,
                   "has " + std::to_string(size) + " bytes, but the shape and dtype require 8");
  }
  check_rejected(head(int32, {0}) + content(pair), int32,
                 "has 8 bytes, but the shape and dtype require 0");
  check_rejected(head(boolean, {3}) + content(raw({0, 1, 2})), boolean, "is not a bool");
  CHECK_EQ(read<std::uint8_t>(head(boolean, {3}) + content(raw({0, 1, 1})), boolean),
           (Result<std::uint8_t>{{0, 1, 1}}));
}

// All sizes, then the joined values.
void test_string_content() {
  const std::string start = head(TensorType::string, {2});
  CHECK_EQ(strings(start + content(raw({1, 2}) + "abc") + string_list({"q"})),
           (Result<std::string>{{"a", "bc"}}));
  CHECK_EQ(strings(start + content(varint(3, 5) + varint(0, 2) + "abc")),
           (Result<std::string>{{"abc", ""}}));
  CHECK_EQ(strings(start + content(raw({0, 0}))), (Result<std::string>{{"", ""}}));
  const std::string long_value(300, 'x');
  CHECK_EQ(strings(start + content(varint(300) + varint(1) + long_value + "y")),
           (Result<std::string>{{long_value, "y"}}));
  for (const std::string& bad :
       {raw({1, 2}) + "ab", raw({1, 2}) + "abcd", raw({3}) + "abc", raw({0}), raw({0, 0x80}),
        varint(1, 6) + varint(0) + "a", varint((std::uint64_t{1} << 32) + 1) + varint(0) + "a"}) {
    check_rejected(start + content(bad), TensorType::string, "is not a list of 2 strings");
  }
  check_rejected(head(TensorType::string, {0}) + content("a"), TensorType::string,
                 "is not a list of 0 strings");
}

// ---- shapes ----

std::optional<Ints> dims(const std::string& fields) {
  const ReadTensor tensor = read_tensor(varint_field(1, 6) + fields, int8);
  if (!tensor.good) return std::nullopt;
  return tensor.header.dims;
}

void test_shapes() {
  const std::string unknown_rank = varint_field(3, 1);
  CHECK_EQ(dims(""), Ints{});
  CHECK_EQ(dims(delimited(2, "")), Ints{});
  CHECK_EQ(dims(delimited(2, unknown_rank)), Ints{});
  CHECK_EQ(dims(delimited(2, dim(2) + unknown_rank)), Ints{2});  // as TensorFlow
  CHECK_EQ(dims(shape({2}) + shape({3, 1})), (Ints{2, 3, 1}));
  CHECK_EQ(dims(delimited(2, delimited(2, ""))), Ints{0});
  CHECK_EQ(dims(delimited(
               2, delimited(2, varint_field(1, 2) + delimited(2, "rows") + varint_field(1, 3)))),
           Ints{3});
  CHECK_EQ(dims(delimited(2, delimited(2, delimited(2, "\xff") + varint_field(1, 4)))), Ints{4});
  CHECK_EQ(dims(delimited(2, group(9, dim(7)) + dim(2) + varint_field(2, 9))), Ints{2});
  CHECK_EQ(dims(shape({0, std::uint64_t{1} << 60})), (Ints{0, std::int64_t{1} << 60}));
}

void test_wrong_shapes() {
  const auto check = [](const std::string& fields, const std::string& why) {
    check_rejected(varint_field(1, 3) + fields, int32, why);
  };
  check(shape({2, ~std::uint64_t{0}}), "a negative dimension, -1");
  check(delimited(2, dim(~std::uint64_t{4}) + varint_field(3, 1)), "a negative dimension, -5");
  constexpr std::uint64_t kBig = std::uint64_t{1} << 40;
  const std::vector<std::vector<std::uint64_t>> overflowing = {
      {kBig, kBig}, {kBig, kBig, 0}, {0, kBig, kBig}, {std::uint64_t{1} << 61}};
  for (const auto& sizes : overflowing) check(shape(sizes), "dimensions of the tensor overflows");
  CHECK_EQ(dims(shape(std::vector<std::uint64_t>(254, 1))), Ints(254, 1));
  check(shape(std::vector<std::uint64_t>(255, 1)), "more than 254 dimensions");
  check(shape(std::vector<std::uint64_t>(2000, 1)), "more than 254 dimensions");
}

void test_unjustified_sizes() {
  const auto zeros = [](std::uint64_t count, std::size_t padding) {
    return head(int8, {count}) + delimited(20, std::string(padding, 'x'));
  };
  CHECK_EQ(read_tensor(zeros(kFreeTensorBytes, 0), int8).header.count, kFreeTensorBytes);
  check_rejected(zeros(kFreeTensorBytes + 1, 0), int8, "too many for the ");
  check_rejected(zeros(std::uint64_t{1} << 40, 0), int8, "claims 1099511627776 elements");
  const std::uint64_t justified = zeros(2 << 20, 40000).size() * kTensorBytesPerByte;
  CHECK(justified > kFreeTensorBytes);
  CHECK_EQ(read_tensor(zeros(justified, 40000), int8).header.count, justified);
  check_rejected(zeros(justified + 1, 40000), int8, "too many for the ");

  const auto repeated = [](std::uint64_t count) {
    return head(TensorType::string, {count}) + string_list({std::string(1016, 'x')});
  };
  CHECK_EQ(read_tensor(repeated(1024), TensorType::string).header.count, std::size_t{1024});
  check_rejected(repeated(1025), TensorType::string, "too many for the ");
  check_rejected(repeated(std::uint64_t{1} << 59), TensorType::string, "too many for the ");
}

// ---- dtypes ----

void test_dtypes() {
  check_rejected("", float32, "the dtype of the tensor is unset, which is not supported");
  check_rejected(head(std::uint64_t{11}, {}), float32, "is qint8, which is not supported");
  check_rejected(head(std::uint64_t{24}, {}), float32, "number 24 of DataType, which is not");
  check_rejected(head(std::uint64_t{101}, {}), float32, "number 101 of DataType");
  check_rejected(head(std::uint64_t{257}, {}), float32, "number 257 of DataType");
  check_rejected(head(~std::uint64_t{0}, {}), float32, "number -1 of DataType");
  check_rejected(head(int32, {}), float32,
                 "the dtype of the tensor is int32, the schema wants float32");
  const Result<float> zero = {{0.0F}};
  CHECK_EQ(read<float>(varint_field(1, 3) + varint_field(1, 1), float32), zero);
  CHECK_EQ(read<float>(varint_field(1, (std::uint64_t{1} << 32) + 1), float32), zero);
}

// ---- damage ----

void test_unknown_fields() {
  const std::string start = head(int32, {1});
  const std::string value = varint_list(7, {8});
  for (const std::string& unknown :
       {varint_field(3, 99), varint_field(30, 1), delimited(14, "\xff"), delimited(15, "\xff"),
        delimited(18, "x"), group(9, varint_field(7, 1)), nested_groups(95), delimited(1, "\x05"),
        varint_field(2, 5), varint_field(4, 5), field_tag(7, wire::fixed32) + "1234",
        field_tag(5, wire::fixed64) + "12345678", field_tag(8, wire::varint) + "\x01"}) {
    CHECK_EQ_IN(int32s(unknown + start + unknown + value + unknown), Result<std::int32_t>{{8}},
                unknown);
  }
}

void test_illegal_bytes() {
  const std::string start = head(int32, {1}) + varint_list(7, {8});
  const std::string eleven = std::string(10, '\x80') + '\x01';
  for (const std::string& bad : {raw({0x80}),
                                 raw({0x00, 0x00}),
                                 raw({0x7c}),
                                 raw({0x7b}),
                                 raw({0x7e}),
                                 delimited(7, raw({0x80})),
                                 delimited(7, eleven),
                                 delimited(10, raw({0x80})),
                                 delimited(17, eleven),
                                 field_tag(7, wire::varint) + eleven,
                                 delimited(5, "12345"),
                                 delimited(6, "1234"),
                                 delimited(9, "123"),
                                 delimited(12, "1234567"),
                                 field_tag(4, wire::delimited) + varint(5) + "1234",
                                 delimited(2, raw({0x80})),
                                 delimited(2, delimited(2, raw({0x08}))),
                                 delimited(2, delimited(2, raw({0x08, 0x80}))),
                                 delimited(2, delimited(2, raw({0x12, 0x02, 0x61}))),
                                 nested_groups(101),
                                 field_tag(8, wire::delimited) + varint(1)}) {
    check_rejected(start + bad, int32, "the bytes are not a TensorProto: truncated or invalid");
    check_rejected(bad + start, int32, "");
  }
}

std::vector<std::string> good_messages() {
  std::vector<std::string> messages;
  for (const auto& written : kWrittenTensors) {
    messages.push_back(from_hex(written.scalar));
    messages.push_back(from_hex(written.cube));
    messages.push_back(from_hex(written.filled));
  }
  messages.push_back(head(TensorType::string, {4}) + string_list({"abc", "", "de"}));
  messages.push_back(head(TensorType::string, {2}) + content(raw({1, 2}) + "abc"));
  messages.push_back(head(complex64, {3}) + delimited(9, joined<float>({1, 2, 3, 4})));
  return messages;
}

// A message that ends between fields may be valid. One that ends inside a field is not.
void test_cuts() {
  for (const auto& message : good_messages()) {
    const auto type = static_cast<TensorType>(message[1]);
    CHECK_EQ_IN(read_tensor(message, type).reason, "", message);
    for (std::size_t size = 0; size < message.size(); ++size) {
      const ReadTensor cut = read_tensor(message.substr(0, size), type);
      CHECK_EQ_IN(cut.good, cut.reason.empty(), message);
      if (size + 1 == message.size()) CHECK_EQ_IN(cut.good, false, message);
    }
  }
}

// The second pass over a message that has changed since the first. Sanitizers detect writes outside
// of the output, and accepted tensors have the size in the header.
void test_changed_messages() {
  const auto messages = good_messages();
  for (const auto& message : messages) {
    TensorHeader header;
    std::string reason;
    const auto type = static_cast<TensorType>(message[1]);
    CHECK(parse_tensor_header(exact(message), type, header, reason));
    const auto check = [&](const std::string& changed) {
      const ReadTensor tensor = fill(changed, header);
      CHECK_EQ_IN(tensor.good, tensor.reason.empty(), changed);
      if (tensor.good) CHECK_EQ_IN(tensor.values().size(), header.count, changed);
    };
    for (const auto& other : messages) check(other);
    for (std::size_t i = 0; i < message.size(); ++i) {
      check(message.substr(0, i));
      for (const int by : {1, 2, 4, 0x3f, 0x80, 0xff}) {
        std::string changed = message;
        changed[i] = static_cast<char>(changed[i] ^ by);
        check(changed);
      }
    }
  }
}

void check_fill(const std::string& message, TensorType type, const std::string& changed) {
  TensorHeader header;
  std::string reason;
  CHECK(parse_tensor_header(exact(message), type, header, reason));
  const ReadTensor tensor = fill(changed, header);
  CHECK_EQ_IN(tensor.good, false, changed);
  CHECK_EQ_IN(tensor.reason, "the tensor changed while it was read", changed);
}

void test_grown_and_shrunk_messages() {
  const std::string numbers = head(int32, {2});
  const std::string two = numbers + varint_list(7, {1, 2});
  check_fill(two, int32, numbers + varint_list(7, {1, 2, 3}));
  check_fill(two, int32, numbers + content("1234"));
  check_fill(two, int32, numbers + content("123456789"));
  check_fill(two, int32, numbers + raw({0x80}));
  check_fill(head(complex64, {2}) + delimited(9, joined<float>({1, 2})), complex64,
             delimited(9, joined<float>({1})));
  check_fill(head(complex64, {2}) + delimited(9, joined<float>({1, 2})), complex64,
             delimited(9, joined<float>({1, 2, 3})));
  const std::string words = head(TensorType::string, {2}) + string_list({"ab", "cd"});
  check_fill(words, TensorType::string, string_list({"abc", "de"}));
  check_fill(words, TensorType::string, string_list({"ab", "c"}));
  check_fill(words, TensorType::string, string_list({"a"}));
  check_fill(words, TensorType::string, string_list({"a", "b", "cd"}));
  check_fill(words, TensorType::string, content(raw({2, 1}) + "abcd"));
  check_fill(words, TensorType::string, content(raw({2, 3}) + "abcde"));
  check_fill(words, TensorType::string, content(raw({2, 2}) + "abcde"));
}

void test_wrong_room() {
  const std::string wrong = "the output does not have the size of the tensor";
  std::vector<std::byte> room(100);
  const MutableBytes all(room);
  TensorHeader header;
  std::string reason;
  const std::string numbers = head(int32, {2}) + varint_list(7, {1, 2});
  CHECK(parse_tensor_header(exact(numbers), int32, header, reason));
  for (const std::size_t size : {0, 7, 9, 16}) {
    CHECK(!fill_tensor(exact(numbers), header, all.first(size), reason));
    CHECK_EQ_IN(reason, wrong, size);
  }
  CHECK(!fill_string_tensor(exact(numbers), header, all.first(24), all.first(8), reason));
  CHECK_EQ(reason, wrong);
  const std::string words = head(TensorType::string, {2}) + string_list({"ab", "cd"});
  CHECK(parse_tensor_header(exact(words), TensorType::string, header, reason));
  CHECK(!fill_string_tensor(exact(words), header, all.first(16), all.first(4), reason));
  CHECK(!fill_string_tensor(exact(words), header, all.first(24), all.first(5), reason));
  CHECK(!fill_tensor(exact(words), header, all.first(4), reason));
  CHECK_EQ(reason, wrong);
  CHECK(fill_string_tensor(exact(words), header, all.first(24), all.last(4), reason));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_written_by_tensorflow();
  test_list_spellings();
  test_long_list();
  test_short_lists();
  test_wrong_lists();
  test_ranges();
  test_content();
  test_string_content();
  test_shapes();
  test_wrong_shapes();
  test_unjustified_sizes();
  test_dtypes();
  test_unknown_fields();
  test_illegal_bytes();
  test_cuts();
  test_changed_messages();
  test_grown_and_shrunk_messages();
  test_wrong_room();
  return finish();
}
