// Reading ranges of several files, compared with slices of their content, and failures.
#include <cerrno>
#include <vector>

#include "check.h"
#include "file.h"
#include "order/permutation.h"
#include "records/ranges.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Content = std::vector<std::byte>;

Content content(std::size_t size, std::uint64_t key) {
  Content bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(key * 1000 + i));
  return bytes;
}

void test_ranges_of_several_files() {
  const Content first = content(1000, 1);
  const Content last = content(10, 2);
  const File a(first);
  const File b(last);
  const std::vector<int> fds = {a.fd(), b.fd(), b.fd()};
  const Numbers bounds = {1, 3, 3, 4};  // neither the first range nor any of the second file
  const std::vector<Range> ranges = {{0, 5, 0}, {990, 10, 20}, {0, 20, 0}, {4, 6, 30}};
  Content out(36);
  const ReadResult result = read_ranges(fds, ranges, bounds, out);
  CHECK_EQ(result.error, 0);
  CHECK(!result.truncated_range);
  Content expected(first.begin(), first.begin() + 20);
  expected.insert(expected.end(), first.begin() + 990, first.end());
  expected.insert(expected.end(), last.begin() + 4, last.end());
  CHECK(out == expected);
}

void test_a_file_that_ends_early_and_one_that_is_not_open() {
  const File file(content(10, 1));
  const std::vector<Range> ranges = {{0, 5, 0}, {5, 5, 0}, {5, 6, 0}, {0, 5, 0}};
  Content out(6);
  ReadResult result = read_ranges(std::vector{file.fd()}, ranges, Numbers{0, 4}, out);
  CHECK_EQ(result.error, 0);
  CHECK_EQ(result.truncated_range, 2U);
  result = read_ranges(std::vector{file.fd(), -1}, ranges, Numbers{0, 2, 3}, out);
  CHECK_EQ(result.error, EBADF);
  CHECK(!result.truncated_range);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_ranges_of_several_files();
  test_a_file_that_ends_early_and_one_that_is_not_open();
  return finish();
}
