#include "wire/varint.h"

#include "wire/varint_paths.h"
#include "wire/varint_portable.h"

namespace tio {
namespace {

// Smaller lists are counted fastest by the portable path.
constexpr std::size_t kSmallestFastCount = 64;

constexpr std::size_t kMaxVarintBytes = 10;

#if defined(__x86_64__)

VarintPath find_best_path() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
  const bool has_avx512 = __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
  if (!has_avx2) return VarintPath::portable;
  return has_avx512 ? VarintPath::avx512 : VarintPath::avx2;
}

std::size_t decode_fast(VarintPath path, Bytes packed, std::size_t& at, std::int64_t* out,
                        std::size_t limit) {
  switch (path) {
    case VarintPath::avx512: return varint_paths::decode_avx512(packed, at, out, limit);
    case VarintPath::avx2: return varint_paths::decode_avx2(packed, at, out, limit);
    case VarintPath::portable: break;
  }
  return 0;
}

std::uint64_t count_fast(VarintPath path, Bytes packed, std::size_t& at) {
  return path == VarintPath::portable ? 0 : varint_paths::count_avx2(packed, at);
}

#else

VarintPath find_best_path() { return VarintPath::portable; }
std::size_t decode_fast(VarintPath, Bytes, std::size_t&, std::int64_t*, std::size_t) { return 0; }
std::uint64_t count_fast(VarintPath, Bytes, std::size_t&) { return 0; }

#endif

}  // namespace

VarintPath best_varint_path() {
  static const VarintPath best = find_best_path();
  return best;
}

bool count_varints(Bytes packed, std::uint64_t& count) {
  const bool is_small = packed.size() < kSmallestFastCount;
  return count_varints(packed, count, is_small ? VarintPath::portable : best_varint_path());
}

bool count_varints(Bytes packed, std::uint64_t& count, VarintPath path) {
  std::size_t at = 0;
  count = count_fast(path, packed, at);
  count += varint_paths::count_portable(packed, at);
  for (; at < packed.size(); ++at) count += load<std::uint8_t>(packed, at) < 0x80;
  return packed.empty() || load<std::uint8_t>(packed, packed.size() - 1) < 0x80;
}

std::size_t VarintReader::read(std::int64_t* out, std::size_t limit) {
  // The number of values decoded one by one before the fast path is tried again.
  constexpr std::size_t kStep = 8;
  std::size_t done = 0;
  while (done < limit && at_ < packed_.size()) {
    done += decode_fast(path_, packed_, at_, out + done, limit - done);
    if (done == limit || at_ == packed_.size()) break;
    const std::size_t step = limit - done < kStep ? limit - done : kStep;
    const std::size_t decoded = varint_paths::decode_portable(packed_, at_, out + done, step);
    done += decoded;
    if (decoded < step && at_ < packed_.size()) {
      bad_ = true;
      break;
    }
  }
  return done;
}

std::size_t VarintReader::skip(std::size_t limit) {
  std::size_t done = 0;
  std::size_t begun = 0;  // number of bytes of the value that was not ended yet
  while (done < limit && packed_.size() - at_ >= 8) {
    const std::uint64_t ends = ~load<std::uint64_t>(packed_, at_) & varint_paths::kContinue;
    const auto count = static_cast<std::size_t>(varint_paths::count_ends(ends));
    const std::size_t first =
        ends == 0 ? 8 : static_cast<std::size_t>(__builtin_ctzll(ends)) / 8 + 1;
    if (count > limit - done || begun + first > kMaxVarintBytes) break;
    begun = ends == 0 ? begun + 8 : static_cast<std::size_t>(__builtin_clzll(ends)) / 8;
    at_ += 8;
    done += count;
  }
  at_ -= begun;
  std::int64_t value = 0;
  while (done < limit && at_ < packed_.size()) {
    if (!varint_paths::decode_one(packed_, at_, value)) {
      bad_ = true;
      break;
    }
    ++done;
  }
  return done;
}

}  // namespace tio
