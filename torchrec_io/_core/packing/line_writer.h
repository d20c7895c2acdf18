// Writes an array from front to back, past the caches of the processor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tio {

// An ordinary write first reads the rest of its cache line from memory, and pushes other data out
// of the caches. Neither is useful for arrays that are larger than these and are read much later.
// So whole lines are collected here, and written past the caches where the processor can do that.
template <class T>
class LineWriter {
 public:
  // The memory has room for all items that are put.
  explicit LineWriter(T* out)
      : out_(out), begin_(reinterpret_cast<std::uintptr_t>(out) % kLineBytes / sizeof(T)) {
    end_ = begin_;
  }

  // Puts `count` numbers from `first` on, each larger by `step` than the one before it.
  void put_ramp(std::size_t count, T first, T step = 0) {
    using Word = std::make_unsigned_t<T>;  // may overflow after the last number
    const auto value = [=](std::size_t k) {
      return static_cast<T>(static_cast<Word>(first) +
                            static_cast<Word>(k) * static_cast<Word>(step));
    };
    const std::size_t head = end_ == 0 ? 0 : std::min(count, kItems - end_);
    for (std::size_t k = 0; k < head; ++k) line_[end_++] = value(k);
    if (end_ == kItems) flush();
    count -= head;
    alignas(kLineBytes) T line[kItems];
    for (std::size_t k = 0; k < kItems; ++k) line[k] = value(head + k);
    const Word stride = static_cast<Word>(kItems) * static_cast<Word>(step);
    T* out = out_;
    for (; count >= kItems; count -= kItems, out += kItems) {
      write_line(line, out);
      for (T& item : line) item = static_cast<T>(static_cast<Word>(item) + stride);
    }
    out_ = out;
    put_rest(line, count);
  }

  // Puts the numbers from `begin` to `end`.
  template <class U>
  void put_all(const U* begin, const U* end) {
    const auto size = [&] { return static_cast<std::size_t>(end - begin); };
    const std::size_t head = end_ == 0 ? 0 : std::min(size(), kItems - end_);
    put_rest(begin, head);
    if (end_ == kItems) flush();
    begin += head;
    T* out = out_;
    for (; size() >= kItems; begin += kItems, out += kItems) {
      alignas(kLineBytes) T line[kItems];
      convert(begin, kItems, line);
      write_line(line, out);
    }
    out_ = out;
    put_rest(begin, size());
  }

  void put(T item) {
    line_[end_++] = item;
    if (end_ == kItems) flush();
  }

  // Writes the last items. Must be called before the memory is read, or used for anything else.
  void finish() {
    flush();
#ifdef __SSE2__
    _mm_sfence();
#endif
  }

 private:
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kItems = kLineBytes / sizeof(T);

  template <class U>
  static void convert(const U* from, std::size_t count, T* to) {
    std::transform(from, from + count, to, [](U item) { return static_cast<T>(item); });
  }

  // Puts items that fit in the line.
  template <class U>
  void put_rest(const U* from, std::size_t count) {
    convert(from, count, line_ + end_);
    end_ += count;
  }

  void flush() {
    if (end_ - begin_ == kItems) {
      write_line(line_, out_);
    } else {
      std::copy(line_ + begin_, line_ + end_, out_);
    }
    out_ += end_ - begin_;
    begin_ = end_ = end_ % kItems;
  }

  // Both the line and its place in memory are aligned.
  static void write_line(const T* line, T* out) {
#ifdef __SSE2__
    auto* to = reinterpret_cast<__m128i*>(out);
    const auto* from = reinterpret_cast<const __m128i*>(line);
    for (std::size_t i = 0; i < kLineBytes / sizeof(__m128i); ++i) {
      _mm_stream_si128(to + i, _mm_load_si128(from + i));
    }
#else
    std::copy(line, line + kItems, out);
#endif
  }

  T* out_;             // place of the first item that was not written
  std::size_t begin_;  // place of that item in its line
  std::size_t end_;    // place in the line of the next item to put; 0: the line is empty
  alignas(kLineBytes) T line_[kItems];
};

}  // namespace tio
