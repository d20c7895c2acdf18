// The encoder, compared with messages built by hand: order, lengths of every size, empty parts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "check.h"
#include "encode.h"
#include "example/encoder.h"

namespace tio::test {
namespace {

// One Feature, as plain values.
struct Plain {
  Kind kind = Kind::none;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> bytes;

  std::string spelled() const {
    switch (kind) {
      case Kind::none: return "";
      case Kind::ints: return feature(kind, ints.empty() ? "" : packed_ints(ints));
      case Kind::floats: return feature(kind, floats.empty() ? "" : packed_floats(floats));
      case Kind::bytes: return feature(kind, bytes_values(bytes));
    }
    return "";
  }
};

struct Named {
  std::string key;
  std::vector<Plain> features;
};

// A message and its expected bytes. The message has views of the strings.
class Built {
 public:
  Built(std::vector<Named> context, std::vector<Named> sequence, bool has_context,
        bool has_sequence)
      : context_(std::move(context)), sequence_(std::move(sequence)) {
    message.context.is_present = has_context;
    message.sequence.is_present = has_sequence;
    for (const Named& named : context_) add(message.context, named);
    for (const Named& named : sequence_) add(message.sequence, named);
  }

  std::string spelled() const {
    std::string out;
    if (message.context.is_present) {
      out += delimited(
          1, spelled(context_, [](const Named& named) { return named.features.at(0).spelled(); }));
    }
    if (message.sequence.is_present) {
      out += delimited(2, spelled(sequence_, [](const Named& named) {
                         std::string steps;
                         for (const Plain& step : named.features) {
                           steps += delimited(1, step.spelled());
                         }
                         return steps;
                       }));
    }
    return out;
  }

  Message message;

 private:
  template <class Value>
  static std::string spelled(std::vector<Named> part, Value value) {
    std::sort(part.begin(), part.end(),
              [](const Named& a, const Named& b) { return a.key < b.key; });
    std::string out;
    for (const Named& named : part) out += entry(named.key, value(named));
    return out;
  }

  void add(MessagePart& part, const Named& named) {
    MapEntry entry;
    entry.key = std::as_bytes(std::span(named.key));
    entry.begin = message.features.size();
    for (const Plain& plain : named.features) add(plain);
    entry.end = message.features.size();
    part.entries.push_back(entry);
  }

  void add(const Plain& plain) {
    ValueRun run;
    run.kind = plain.kind;
    switch (plain.kind) {
      case Kind::none: break;
      case Kind::ints: append(run, message.ints, plain.ints); break;
      case Kind::floats: append(run, message.floats, plain.floats); break;
      case Kind::bytes: append(run, message.bytes, plain.bytes); break;
    }
    message.features.push_back(run);
  }

  template <class To, class From>
  static void append(ValueRun& run, std::vector<To>& to, const std::vector<From>& values) {
    run.begin = to.size();
    for (const From& value : values) {
      if constexpr (std::is_same_v<From, std::string>) {
        to.push_back(std::as_bytes(std::span(value)));
      } else {
        to.push_back(value);
      }
    }
    run.end = to.size();
  }

  std::vector<Named> context_;
  std::vector<Named> sequence_;
};

// Writes to memory of exactly the measured size.
std::string encoded(MessageEncoder& encoder, Message& message) {
  CHECK(!encoder.sort(message).has_value());
  const auto size = encoder.measure(message);
  if (!CHECK(size.has_value())) return "";
  std::vector<std::byte> memory(*size);
  encoder.write(message, memory);
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

void check(const std::vector<Named>& context, const std::vector<Named>& sequence = {},
           bool has_context = true, bool has_sequence = false) {
  Built built(context, sequence, has_context, has_sequence);
  MessageEncoder encoder;
  const std::string wanted = built.spelled();
  CHECK_EQ(encoded(encoder, built.message), wanted);
  CHECK_EQ(encoded(encoder, built.message), wanted);  // sorted already
}

Plain ints(std::vector<std::int64_t> values) { return {Kind::ints, std::move(values), {}, {}}; }
Plain floats(std::vector<float> values) { return {Kind::floats, {}, std::move(values), {}}; }
Plain bytes(std::vector<std::string> values) { return {Kind::bytes, {}, {}, std::move(values)}; }

void test_parts() {
  check({}, {}, false, false);
  check({}, {}, true, false);
  check({}, {}, false, true);
  check({}, {}, true, true);
  check({{"a", {ints({1})}}}, {{"b", {ints({2})}}}, true, true);
  CHECK_EQ(Built({}, {}, true, false).spelled(), raw({0x0a, 0x00}));
}

void test_kinds() {
  for (const Plain& plain : {Plain{}, ints({}), floats({}), bytes({}), bytes({""}), ints({0}),
                             floats({0}), bytes({"", "a", std::string("\0", 1)})}) {
    check({{"key", {plain}}});
    check({}, {{"key", {}}}, false, true);
    check({}, {{"key", {plain, Plain{}, plain}}}, false, true);
  }
}

void test_varints() {
  std::vector<std::int64_t> all;
  for (int shift = 0; shift < 64; ++shift) {
    const std::uint64_t power = std::uint64_t{1} << shift;
    for (const std::uint64_t value : {power - 1, power, power + 1, ~power, 0 - power}) {
      all.push_back(static_cast<std::int64_t>(value));
      check({{"", {ints({all.back()})}}});
    }
  }
  check({{"a", {ints(all)}}}, {{"b", {ints(all), ints(all)}}}, true, true);
}

// The sizes of keys, values and lists at which a length needs another byte.
void test_lengths() {
  for (const std::size_t around : {128U, 16384U}) {
    for (std::size_t size = around - 24; size <= around + 2; ++size) {
      check({{"a", {bytes({std::string(size, 'x')})}}});
      check({{std::string(size, 'k'), {ints({1})}}});
      check({{"a", {ints(std::vector<std::int64_t>(size, 1))}}});
      check({{"a", {floats(std::vector<float>(size / 4, 1))}}});
      check({}, {{"a", {bytes({std::string(size, 'x')}), ints({1})}}}, false, true);
      check({}, {{"a", std::vector<Plain>(size / 2)}}, false, true);
    }
  }
  check({{"a", {bytes({std::string(3 << 20, 'x'), "y"})}}});
}

void test_floats_keep_their_bits() {
  const auto nan = std::numeric_limits<float>::signaling_NaN();
  check({{"a", {floats({nan, -nan, std::numeric_limits<float>::infinity(), -0.0F, 1e-45F})}}});
}

void test_order() {
  std::vector<Named> named;
  for (const char* key : {"b", "", "a", "aaaaaaaa", "aaaaaaaab", "aaaaaaaaa", "aaaaaaa", "ab",
                          "\x7f", "\xc3\xa9", "\xf0\x9f\x98\x80", "aaaaaaaa\xff", "c10", "c1"}) {
    named.push_back({key, {ints({static_cast<std::int64_t>(named.size())})}});
  }
  named.push_back({std::string("\0", 1), {ints({1})}});
  named.push_back({std::string("a\0", 2), {ints({1})}});
  named.push_back({std::string("aaaaaaaa\0", 9), {ints({1})}});
  std::minstd_rand random(1);
  for (int round = 0; round < 50; ++round) {
    check(named, named, true, false);
    std::vector<Named> steps = named;
    for (Named& entry : steps) entry.features.resize(random() % 3);
    check(named, steps, true, true);
    std::shuffle(named.begin(), named.end(), random);
  }
}

void test_keys_that_are_there_twice() {
  const std::string twice(12, 'k');
  const std::vector<Named> good = {{"a", {ints({1})}}, {twice, {ints({1})}}};
  std::vector<Named> bad = good;
  bad.push_back({twice, {ints({2})}});
  MessageEncoder encoder;
  for (const bool in_context : {true, false}) {
    Built built(in_context ? bad : good, in_context ? good : bad, true, true);
    const auto found = encoder.sort(built.message);
    if (!CHECK(found.has_value())) continue;
    CHECK_EQ(std::string(reinterpret_cast<const char*>(found->data()), found->size()), twice);
  }
  Built built(good, good, true, true);  // the same key in both parts is no duplicate
  CHECK(!encoder.sort(built.message).has_value());
}

void test_messages_of_2_gib() {
  // The headers around one value of `size` bytes: 6 bytes for the value, 6 each for the list and
  // the Feature, 3 for the key "a", 6 each for the entry and the Features.
  constexpr std::size_t kHeaders = 33;
  const std::vector<std::byte> chunk(1 << 20);
  for (const int more : {0, 1}) {
    Message message;
    message.context.is_present = true;
    const std::string key = "a";
    message.context.entries.push_back({std::as_bytes(std::span(key)), 0, 1});
    // Views of the same memory, and one that only has a size, because nothing is written.
    const std::size_t rest = 0x7fffffff - kHeaders + static_cast<std::size_t>(more);
    message.bytes.push_back({chunk.data(), rest});
    message.features.push_back({Kind::bytes, 0, 1});
    MessageEncoder encoder;
    const auto size = encoder.measure(message);
    CHECK_EQ(size.has_value(), more == 0);
    if (size) CHECK_EQ(*size, std::size_t{0x7fffffff});
  }
  // Too large: the sum of many features, of many values, and of sizes whose sum overflows.
  Message message;
  message.sequence.is_present = true;
  message.sequence.entries.push_back({{}, 0, 2049});
  message.bytes.push_back(chunk);
  message.features.assign(2049, {Kind::bytes, 0, 1});
  MessageEncoder encoder;
  CHECK(!encoder.measure(message).has_value());
  message.bytes.assign(2049, chunk);
  message.features.assign(1, {Kind::bytes, 0, 2049});
  message.sequence.entries[0].end = 1;
  CHECK(!encoder.measure(message).has_value());
  message.bytes.assign(5, Bytes(chunk.data(), std::size_t{1} << 62));
  message.features.assign(1, {Kind::bytes, 0, 5});
  CHECK(!encoder.measure(message).has_value());
}

void test_a_message_is_used_again() {
  Message message;
  MessageEncoder encoder;
  const std::vector<std::vector<Named>> contents = {
      {{"b", {ints({1, 300})}}, {"a", {bytes({"x"})}}}, {}, {{"c", {floats({1.5F})}}}};
  for (const auto& context : contents) {
    Built built(context, {}, true, false);
    message.clear();
    message.context = built.message.context;
    message.features = built.message.features;
    message.ints = built.message.ints;
    message.floats = built.message.floats;
    message.bytes = built.message.bytes;
    CHECK_EQ(encoded(encoder, message), built.spelled());
  }
}

void test_random_messages() {
  std::mt19937_64 random(7);
  const auto some = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const auto plain = [&] {
    Plain out;
    out.kind = static_cast<Kind>(some(4));
    for (std::size_t n = some(4) == 0 ? some(200) : some(4); n > 0; --n) {
      out.ints.push_back(static_cast<std::int64_t>(random() >> some(64)));
      out.floats.push_back(static_cast<float>(random()));
      out.bytes.emplace_back(some(4) == 0 ? some(300) : some(4), 'x');
    }
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<Named> context;
    std::vector<Named> sequence;
    for (std::size_t n = some(6); n > 0; --n) {
      context.push_back({std::to_string(random()), {plain()}});
      sequence.push_back({std::to_string(random()), {}});
      for (std::size_t steps = some(4); steps > 0; --steps) {
        sequence.back().features.push_back(plain());
      }
    }
    check(context, sequence, true, true);
  }
}

void test_narrow_float() {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double end = std::ldexp(1.0, 128) - std::ldexp(1.0, 103);
  float out = 0;
  for (const double sign : {1.0, -1.0}) {
    for (const double value : {0.0, 1e-60, 0.1, 1.0, kMost, std::nextafter(end, 0)}) {
      CHECK(narrow_float(sign * value, out));
      CHECK_EQ(out, static_cast<float>(sign * std::min(value, kMost)));
      CHECK_EQ(std::signbit(out), sign < 0);
    }
    CHECK(narrow_float(sign * kInfinity, out));
    CHECK_EQ(out, static_cast<float>(sign * kInfinity));
    for (const double value : {end, 1e39, std::numeric_limits<double>::max()}) {
      CHECK(!narrow_float(sign * value, out));
    }
  }
  CHECK(narrow_float(std::nan("1"), out));
  CHECK(std::isnan(out));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_parts();
  test_kinds();
  test_varints();
  test_lengths();
  test_floats_keep_their_bits();
  test_order();
  test_keys_that_are_there_twice();
  test_messages_of_2_gib();
  test_a_message_is_used_again();
  test_random_messages();
  test_narrow_float();
  return finish();
}
