// Lists of varints on every path, in pieces of every size, compared with decoding one at a time.
#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include "check.h"
#include "encode.h"
#include "reference.h"
#include "wire/varint.h"

namespace tio::test {
namespace {

struct Decoded {
  std::vector<std::int64_t> values;
  bool good = true;
};

Decoded reference_decode(Bytes packed) {
  Decoded decoded;
  std::size_t at = 0;
  while (at < packed.size()) {
    const auto value = reference_varint(packed, at);
    decoded.good = value.has_value();
    if (!decoded.good) return decoded;
    decoded.values.push_back(static_cast<std::int64_t>(*value));
  }
  return decoded;
}

// Returns the paths that this processor supports.
std::vector<VarintPath> paths() {
  std::vector<VarintPath> found;
  for (const VarintPath path : {VarintPath::portable, VarintPath::avx2, VarintPath::avx512}) {
    if (path <= best_varint_path()) found.push_back(path);
  }
  return found;
}

// Reads in pieces of `most` values, each into memory of exactly that size.
Decoded read_in_pieces(Bytes packed, std::size_t most, VarintPath path) {
  Decoded decoded;
  VarintReader reader(packed, path);
  while (!reader.done() && !reader.bad()) {
    const auto piece = std::make_unique<std::int64_t[]>(most);
    const std::size_t count = reader.read(piece.get(), most);
    CHECK(count <= most);
    CHECK(count > 0 || reader.bad());
    decoded.values.insert(decoded.values.end(), piece.get(), piece.get() + count);
  }
  decoded.good = !reader.bad();
  return decoded;
}

// Reads after skipping `skipped` values at most, and skips those after two values.
void check_skipping(Bytes packed, std::size_t skipped, const Decoded& wanted) {
  VarintReader reader(packed);
  std::vector<std::int64_t> read(2);
  const std::size_t before = reader.skip(skipped);
  read.resize(reader.read(read.data(), 2));
  const std::size_t after = reader.skip(SIZE_MAX);
  CHECK_EQ(reader.bad(), !wanted.good);
  CHECK_EQ(reader.done(), wanted.good);
  CHECK_EQ(before, std::min(skipped, wanted.values.size()));
  CHECK_EQ(before + read.size() + after, wanted.values.size());
  CHECK(std::equal(read.begin(), read.end(), wanted.values.begin() + before));
}

void check_list(const std::string& bytes) {
  const auto packed = exact(bytes);
  const Decoded wanted = reference_decode(packed);
  for (std::size_t most = 1; most <= 100; most += most < 40 ? 1 : 12) {
    for (const VarintPath path : paths()) {
      const Decoded decoded = read_in_pieces(packed, most, path);
      CHECK_EQ_IN(decoded.good, wanted.good, bytes);
      CHECK_EQ_IN(decoded.values, wanted.values, bytes);
    }
  }
  for (const std::size_t skipped : {0, 1, 2, 7, 8, 9, 23, 64, 1000}) {
    check_skipping(packed, skipped, wanted);
  }
  for (const VarintPath path : paths()) {
    std::uint64_t count = 0;
    const bool is_whole = count_varints(packed, count, path);
    if (wanted.good) CHECK_EQ_IN(count, wanted.values.size(), bytes);
    CHECK_EQ_IN(is_whole, packed.empty() || packed.back() < std::byte{0x80}, bytes);
    std::uint64_t count_of_best = 0;
    CHECK_EQ_IN(count_varints(packed, count_of_best), is_whole, bytes);
    CHECK_EQ_IN(count_of_best, count, bytes);
  }
}

using Random = std::mt19937_64;

// Returns a random varint of `size` bytes.
std::string random_varint(Random& random, std::size_t size) {
  std::string out;
  for (std::size_t i = 1; i < size; ++i) out.push_back(static_cast<char>(random() | 0x80));
  out.push_back(static_cast<char>(random() & 0x7f));
  return out;
}

void test_random_lists() {
  Random random(1);
  for (int round = 0; round < 1500; ++round) {
    // The percentage of values of one byte, and of two bytes among the others.
    const std::uint64_t shorts = random() % 101;
    const std::uint64_t pairs = random() % 101;
    std::string bytes;
    for (std::uint64_t i = random() % (round % 5 == 0 ? 250 : 60); i > 0; --i) {
      std::size_t size = 3 + random() % 8;
      if (random() % 100 < shorts) {
        size = 1;
      } else if (random() % 100 < pairs) {
        size = 2;
      }
      bytes += random_varint(random, size);
    }
    check_list(bytes);
    if (!bytes.empty()) check_list(bytes.substr(0, bytes.size() - 1));
  }
}

void test_damaged_lists() {
  Random random(2);
  const std::string cuts[] = {"\x80", std::string(9, '\xff'), std::string(10, '\x80') + "\x01",
                              std::string(30, '\xff')};
  for (const auto& cut : cuts) {
    for (std::size_t before = 0; before < 20; ++before) {
      for (std::size_t behind = 0; behind < 20; ++behind) {
        check_list(std::string(before, '\x05') + cut + std::string(behind, '\x06'));
        check_list(random_varint(random, 2) + std::string(before, '\x05') + cut);
      }
    }
  }
}

void test_edges() {
  check_list("");
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> values = {0, -1, kMax, -kMax - 1};
  for (unsigned bit = 0; bit < 63; ++bit) {
    values.push_back(std::int64_t{1} << bit);
    values.push_back((std::int64_t{1} << bit) - 1);
  }
  CHECK_EQ(read_in_pieces(exact(joined_varints(values)), 7, VarintPath::portable).values, values);
  check_list(joined_varints(values));
  for (std::size_t size = 1; size <= 10; ++size) check_list(varint(1, size) + varint(0, size));
}

void test_decode_word() {
  Random random(3);
  for (unsigned length = 1; length <= 8; ++length) {
    for (int round = 0; round < 300; ++round) {
      const std::string spelled = random_varint(random, length);
      std::uint64_t word = random();  // the bytes after the varint must not matter
      std::memcpy(&word, spelled.data(), length);
      std::size_t at = 0;
      const auto wanted = reference_varint(exact(spelled), at);
      for (unsigned size = 1; size <= 8; ++size) {
        std::int64_t value = 0;
        CHECK_EQ_IN(decode_word(word, size, value), size == length, spelled);
        if (size == length) CHECK_EQ_IN(static_cast<std::uint64_t>(value), *wanted, spelled);
      }
    }
  }
  std::int64_t value = 0;
  for (unsigned size = 1; size <= 8; ++size) CHECK(!decode_word(~std::uint64_t{0}, size, value));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_random_lists();
  test_damaged_lists();
  test_edges();
  test_decode_word();
  return finish();
}
