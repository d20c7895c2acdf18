#include "image/color_jitter.h"

#include <algorithm>
#include <utility>

#include "image/color_jitter_paths.h"

namespace tio {

JitterChoice ColorJitter::choose(Philox& random) const {
  JitterChoice choice;
  if (!(random.random() < probability)) return choice;
  std::array<std::uint8_t, 4> order = {0, 1, 2, 3};
  for (std::size_t place = order.size() - 1; place > 0; --place) {
    std::swap(order[place], order[random.integers(place + 1)]);
  }
  std::array<bool, 4> is_made{};
  std::array<double, 4> factors{};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& [low, high] = ranges[i];
    const double same = i == static_cast<std::size_t>(ColorChange::hue) ? 0 : 1;
    is_made[i] = low != high || low != same;
    if (is_made[i]) factors[i] = random.uniform(low, high);
  }
  for (const std::uint8_t i : order) {
    if (!is_made[i]) continue;
    choice.order[choice.count] = static_cast<ColorChange>(i);
    choice.factors[choice.count++] = factors[i];
  }
  return choice;
}

namespace jitter_paths {

namespace {

std::vector<Path> find_paths() {
  std::vector<Path> found = {{&change_portable, &sum_gray_portable}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return found;
  found.insert(found.begin(), {&change_avx2, &sum_gray_avx2});
  if (__builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0) {
    found.insert(found.begin(), {&change_avx512, &sum_gray_avx512});
  }
#endif
  return found;
}

}  // namespace

const std::vector<Path>& paths() {
  static const std::vector<Path> found = find_paths();
  return found;
}

void apply(const Path& path, const JitterChoice& choice, std::uint8_t* pixels, std::size_t count,
           int channels) {
  const auto end = choice.order.begin() + choice.count;
  // The contrast needs the mean of all pixels after the changes before it.
  const auto before = static_cast<std::size_t>(
      std::find(choice.order.begin(), end, ColorChange::contrast) - choice.order.begin());
  const auto run = [&](std::size_t first, std::size_t number, float mean) {
    if (number == 0) return;
    path.change({&choice.order[first], &choice.factors[first], number, mean}, pixels, count,
                channels);
  };
  run(0, before, 0);
  if (before == choice.count || count == 0) return;
  const std::uint64_t sum = path.sum_gray(pixels, count, channels);
  run(before, choice.count - before, static_cast<float>(sum) / static_cast<float>(count));
}

}  // namespace jitter_paths

void apply(const JitterChoice& choice, std::uint8_t* pixels, std::size_t count, int channels) {
  jitter_paths::apply(jitter_paths::paths().front(), choice, pixels, count, channels);
}

}  // namespace tio
