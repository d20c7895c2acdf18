// The row filters of PNG images, compared with a simple implementation.
#include <random>

#include "check.h"
#include "encode.h"
#include "image/png.h"
#include "png_rows.h"

namespace tio::test {
namespace {

// Returns rows without filters, or nothing if they are rejected. Their memory has exactly their
// size.
std::optional<std::string> unfiltered(const std::string& rows, std::size_t row_bytes,
                                      std::size_t pixel_bytes) {
  auto data = exact(rows);
  if (!unfilter_png(data, row_bytes, pixel_bytes)) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(data.data()), data.size());
}

void test_known_rows() {
  const auto check = [](const std::string& rows, const std::string& wanted) {
    CHECK_EQ(unfiltered(rows, 3, 1), std::optional(wanted));
  };
  using namespace std::string_literals;
  check("\0\1\2\3"s, "\0\1\2\3"s);
  check("\1\1\2\3"s, "\1\1\3\6"s);
  check("\2\1\2\3"s, "\2\1\2\3"s);
  check("\3\1\2\3"s, "\3\1\2\4"s);
  check("\4\1\2\3"s, "\4\1\3\6"s);
  check("\0\1\2\3\2\1\1\1"s, "\0\1\2\3\2\2\3\4"s);
  check("\0\4\4\4\3\0\0\0"s, "\0\4\4\4\3\2\3\3"s);
  check("\0\1\2\3\4\0\0\0"s, "\0\1\2\3\4\1\2\3"s);
}

void test_rows_of_every_size() {
  std::mt19937_64 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t row_bytes = 1 + random() % 24;
    const std::size_t pixel_bytes = 1 + random() % 8;
    const std::size_t step = row_bytes + 1;
    std::string rows(random() % 6 * step, '\0');
    for (char& byte : rows) byte = static_cast<char>(random());
    for (std::size_t at = 0; at < rows.size(); at += step) {
      rows[at] = static_cast<char>(random() % (round % 8 == 0 ? 6 : 5));
    }
    CHECK_EQ(unfiltered(rows, row_bytes, pixel_bytes),
             reference_unfilter(rows, row_bytes, pixel_bytes));
  }
}

void test_rows_that_do_not_fill() {
  const std::string rows(8, '\0');
  CHECK(unfiltered(rows, 3, 1).has_value());
  CHECK(unfiltered(rows, 7, 8).has_value());
  CHECK(unfiltered("", 3, 1).has_value());
  for (const std::size_t row_bytes : {0UL, 2UL, 4UL, 8UL, 100UL, SIZE_MAX}) {
    CHECK(!unfiltered(rows, row_bytes, 1));
  }
  CHECK(!unfiltered(rows, 3, 0));
  CHECK(!unfiltered(rows, 3, 9));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_known_rows();
  test_rows_of_every_size();
  test_rows_that_do_not_fill();
  return finish();
}
