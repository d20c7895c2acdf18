// A lack of memory while a stream is decompressed: std::bad_alloc, and no other allocation than
// that of a stream, and of the checksums of parts.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "deflated.h"
#include "encode.h"

namespace tio::test {
namespace {

void test_decoding() {
  std::mt19937_64 random(8);
  const std::string bytes = repeating_bytes(100'000, random);
  const std::vector<std::byte> file = exact(deflated(bytes, Format::gzip));
  std::vector<std::byte> out(bytes.size());
  fail_each_allocation("making a stream", [] {
    const auto stream = std::make_unique<InflateStream>(Format::gzip);
    return !stream->is_done();
  });
  fail_each_allocation("making a stream with a window", [&out] {
    const auto stream = std::make_unique<InflateStream>(Bytes(out).first(9), 3, std::byte{4});
    return !stream->is_done();
  });
  const auto stream = std::make_unique<InflateStream>(Format::gzip);
  Inflated step;
  std::string reason;
  check_allocates_nothing(
      "decoding", [&] { return stream->decode(file, out, step, reason) && stream->is_done(); });
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_decoding();
  return tio::test::finish();
}
