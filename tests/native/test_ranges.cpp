// Reading ranges of several files, compared with slices of their content, and failures.
#include <fcntl.h>
#include <unistd.h>

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

// Many ranges of files that are not in memory, at least where the file system can drop them from
// it.
void test_ranges_that_are_not_in_memory() {
  const Content bytes = content(1 << 20, 3);
  const File a(bytes);
  const File b(bytes);
  const std::vector<int> fds = {a.fd(), b.fd(), a.fd()};
  const Numbers bounds = {0, 100, 100 + 64, 100 + 64 + 90};
  std::vector<Range> ranges;
  Content expected;
  for (std::int64_t i = 0; i < bounds.back(); ++i) {
    const auto offset = static_cast<std::int64_t>(mix(i) % ((1 << 20) - 10));
    ranges.push_back({offset, 10, 10 * i});
    expected.insert(expected.end(), bytes.begin() + offset, bytes.begin() + offset + 10);
  }
  for (int round = 0; round < 3; ++round) {
    for (const int fd : fds) {
      CHECK_EQ(fsync(fd), 0);
      CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    Content out(expected.size());
    const ReadResult result = read_ranges(fds, ranges, bounds, out);
    CHECK_EQ(result.error, 0);
    CHECK(!result.truncated_range);
    CHECK(out == expected);
  }
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
  test_ranges_that_are_not_in_memory();
  test_a_file_that_ends_early_and_one_that_is_not_open();
  return finish();
}
