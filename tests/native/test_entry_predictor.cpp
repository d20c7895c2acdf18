// Entries predicted from the previous record: the result is always that of parsing the record
// alone.
#include <limits>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/entry_predictor.h"

namespace tio::test {
namespace {

const ExampleParser& parser() {
  static const ExampleParser parser({ragged("a", Dtype::int64), ragged("f", Dtype::float32),
                                     ragged("s", Dtype::bytes), fixed("one", Dtype::int64),
                                     with_default(fixed("b", Dtype::boolean), {"\x01"})});
  return parser;
}

// A record of a writer. The members are the parts that differ between records.
struct Record {
  std::size_t ints = 3;
  std::size_t floats = 2;
  std::size_t text = 5;
  std::int64_t one = 300;
  std::string unread = "other";

  std::string fields() const {
    return ints_entry("a", std::vector<std::int64_t>(ints, 7)) +
           floats_entry("f", std::vector<float>(floats, 0.5F)) +
           bytes_entry("s", {std::string(text, 'x')}) + ints_entry("one", {one}) +
           bytes_entry(unread, {"z"});
  }
  std::string bytes() const { return example(fields()); }
};

void check_pair(const std::string& first, const std::string& second) {
  CHECK_EQ_IN(difference_from_alone(parser(), {first, second}), std::string(), second);
}

// Lengths on both sides of the size at which a length needs a second byte, for the entry or in it.
void test_other_lengths() {
  const std::vector<std::size_t> sizes = {
      0,   1,   2,   5,   8,   100, 108, 109, 110, 111, 112, 113, 114, 115,   116,   117,  118,
      119, 120, 125, 126, 127, 128, 129, 130, 200, 255, 256, 257, 300, 16380, 16384, 16390};
  for (const std::size_t before : sizes) {
    for (const std::size_t after : sizes) {
      Record first;
      Record second;
      first.text = before;
      second.text = after;
      first.ints = before % 400;
      second.ints = after % 400;
      first.floats = before % 100;
      second.floats = after % 100;
      second.one = static_cast<std::int64_t>(after) * 12345;
      check_pair(first.bytes(), second.bytes());
    }
  }
}

void test_other_orders_and_keys() {
  const std::vector<std::string> entries = {
      ints_entry("a", {1}), floats_entry("f", {1}), bytes_entry("s", {"x"}), ints_entry("one", {2}),
      ints_entry("b", {0}), ints_entry("ab", {4}), entry("a", ""), group(5, ""),
      // The value is not the last field of its entry.
      delimited(1, delimited(2, feature(Kind::ints, packed_ints({8}))) + delimited(1, "a")),
      delimited(1, delimited(1, "s") + delimited(2, feature(Kind::bytes, bytes_values({"y"}))) +
                       varint_field(7, 1))};
  for (const auto& i : entries) {
    for (const auto& j : entries) {
      for (const auto& k : entries) {
        check_pair(example(i + j), example(k + j + ints_entry("one", {2})));
        check_pair(example(i + j) + example(k), example(i) + example(k + j));
      }
    }
  }
}

// Keys up to and past the longest header that is predicted.
void test_long_keys() {
  for (std::size_t size = 0; size <= 70; ++size) {
    const std::string key(size, 'k');
    const ExampleParser keyed({ragged(key, Dtype::bytes)});
    for (const std::size_t text : {1, 60, 200}) {
      const std::vector<std::string> records = {
          example(bytes_entry(key, {std::string(5, 'x')}) + ints_entry("z", {1})),
          example(bytes_entry(key, {std::string(text, 'x')}) + ints_entry("z", {1})),
          example(bytes_entry(key + "k", {std::string(text, 'x')}) + ints_entry("z", {1})),
          example(bytes_entry(key.substr(0, size / 2), {std::string(text, 'x')}))};
      CHECK_EQ_IN(difference_from_alone(keyed, records), std::string(), size);
    }
  }
}

void test_damage_at_every_byte() {
  const Record first;
  Record second;
  second.ints = 4;
  second.text = 9;
  second.one = 5;
  for (const auto& good : {first.bytes(), second.bytes()}) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int flip = 1; flip < 256; ++flip) {
        std::string damaged = good;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        check_pair(first.bytes(), damaged);
      }
    }
  }
}

// A prediction may be learned from a damaged record. It must not affect the good record after it.
void test_good_after_damaged() {
  const std::string good = Record().bytes();
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int flip = 1; flip < 256; flip += 6) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      check_pair(damaged, good);
      check_pair(damaged, damaged);
    }
  }
}

// Every length of an entry. The lengths inside it are those that a predictor expects, or wrap
// around.
void test_every_claimed_length() {
  const std::string first = example(bytes_entry("s", {"hello"}) + ints_entry("one", {1}));
  for (int claimed = 0; claimed < 256; ++claimed) {
    const std::string header =
        raw({0x0a, claimed, 0x0a, 1, 's', 0x12, claimed - 5, 0x0a, claimed - 7, 0x0a, claimed - 9});
    for (const std::size_t payload : {0, 1, 5, 60, 116, 117, 118, 250, 1400}) {
      check_pair(first, example(header + std::string(payload, '\x01')));
      check_pair(first, example(header + std::string(payload, '\x01') + ints_entry("one", {1})));
    }
  }
}

// An entry whose header differs from the learned one by 2 in any set of its bytes.
void test_shifted_headers() {
  const std::string value = feature(Kind::bytes, bytes_values({"hello"}));
  const std::string tail = ints_entry("one", {1});
  for (const std::string& fields : {delimited(1, "s") + delimited(2, value),
                                    delimited(1, "s") + varint_field(7, 1) + delimited(2, value),
                                    varint_field(7, 1) + delimited(1, "s") + delimited(2, value)}) {
    const std::string first = delimited(1, fields);
    const std::size_t header = first.size() - 5;
    for (std::size_t set = 0; set < std::size_t{1} << (header - 2); ++set) {
      std::string second = first;
      second[1] = static_cast<char>(second[1] + 2);  // the length of the entry always differs
      for (std::size_t i = 2; i < header; ++i) {
        if (set >> (i - 2) & 1) second[i] = static_cast<char>(second[i] + 2);
      }
      // Two more bytes, which are a valid field if they are not the end of the value.
      const std::vector<std::string> records = {example(first + tail),
                                                example(second + "\x38\x01" + tail)};
      CHECK_EQ(difference_from_alone(parser(), records), std::string());
    }
  }
}

// An entry that is encoded as predicted, but extends past its Features.
void test_entries_past_their_message() {
  const std::string last = bytes_entry("s", {"hello" + varint_field(7, 1)});
  for (const std::string& fields : {last, ints_entry("one", {1}) + last}) {
    for (std::size_t missing = 0; missing < 8; ++missing) {
      // The bytes after the Features are a valid field if they start with that of the text.
      const std::string second =
          field_tag(1, wire::delimited) + varint(fields.size() - missing) + fields;
      check_pair(example(fields), second);
      check_pair(example(fields), second + example(ints_entry("one", {1})));
    }
  }
}

void test_overlong_spellings() {
  const auto spelled = [](std::size_t entry_length, std::size_t key_length,
                          std::size_t list_length) {
    const std::string list = field_tag(1, wire::delimited) + varint(2, list_length) + "\x05\x06";
    const std::string key = field_tag(1, wire::delimited) + varint(1, key_length) + "a";
    const std::string fields = key + delimited(2, feature(Kind::ints, list));
    return example(field_tag(1, wire::delimited) + varint(fields.size(), entry_length) + fields +
                   ints_entry("one", {1}));
  };
  std::vector<std::string> records;
  for (const std::size_t i : {0, 2, 5}) {
    for (const std::size_t j : {0, 2, 5}) {
      for (const std::size_t k : {0, 2, 5}) records.push_back(spelled(i, j, k));
    }
  }
  for (const auto& first : records) {
    for (const auto& second : records) check_pair(first, second);
  }
}

// An unknown field in place of the key has the same length as a key of no bytes.
void test_entry_without_key() {
  const std::string value = delimited(2, feature(Kind::ints, packed_ints({5})));
  const ExampleParser unnamed({ragged("", Dtype::int64)});
  const std::vector<std::string> entries = {delimited(1, "") + value, varint_field(3, 7) + value,
                                            varint_field(1, 0) + value, value};
  for (const auto& first : entries) {
    for (const auto& second : entries) {
      const std::vector<std::string> records = {example(delimited(1, first)),
                                                example(delimited(1, second))};
      CHECK_EQ(difference_from_alone(unnamed, records), std::string());
    }
  }
}

// An overlong length takes the two bytes of a key. The byte that changes with the length of the
// entry is then not a length, so the second record is invalid.
void test_overlong_length_in_place_of_a_key() {
  const ExampleParser unnamed({ragged("", Dtype::int64)});
  const auto spelled = [](const std::string& payload, int shifted) {
    const auto size = static_cast<int>(payload.size());
    return example(raw({0x0a, size + 8, 0x12, 0x80 | (size + 4 - shifted), 0x80, shifted, 0x1a,
                        size + 2, 0x0a, size}) +
                   payload);
  };
  const std::vector<std::string> records = {spelled("\x05", 0), spelled("\x05\x06", 1)};
  CHECK_EQ(difference_from_alone(unnamed, records), std::string());
}

void test_more_entries_than_predictors() {
  std::string fields;
  for (int i = 0; i < 5000; ++i) fields += ints_entry("k" + std::to_string(i), {i});
  const std::string record = example(fields + ints_entry("a", {1, 2}) + ints_entry("one", {3}));
  CHECK_EQ(difference_from_alone(parser(), {record, record, record}), std::string());
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_other_lengths();
  test_other_orders_and_keys();
  test_long_keys();
  test_damage_at_every_byte();
  test_good_after_damaged();
  test_every_claimed_length();
  test_shifted_headers();
  test_entries_past_their_message();
  test_overlong_spellings();
  test_entry_without_key();
  test_overlong_length_in_place_of_a_key();
  test_more_entries_than_predictors();
  return finish();
}
