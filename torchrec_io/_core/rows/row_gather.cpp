#include "rows/row_gather.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

namespace tio {
namespace {

// More than any memory has, and far from overflow.
constexpr std::int64_t kMost = std::int64_t{1} << 58;
constexpr std::int64_t kMostItemBytes = 16;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Returns the product of two numbers, at most kMost.
std::int64_t product(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) throw std::invalid_argument("sizes must not be negative");
  if (b != 0 && a > kMost / b) throw std::bad_alloc();
  return a * b;
}

// Returns the size of an array of a form with that many rows.
std::int64_t size_of(const ArrayForm& form, std::int64_t rows) {
  const std::int64_t items = product(rows, form.width) + (form.kind == ArrayKind::offsets ? 1 : 0);
  return product(items, form.item_bytes);
}

// Checks that an array, and its copies, lie inside of an arena.
void check_array(const ArrayForm& form, std::int64_t at, std::int64_t stride, std::int64_t size,
                 std::size_t arena) {
  require(is_inside(at, size, arena), "an array must lie inside of its arena");
  if (form.copies <= 1 || size == 0) return;
  require(stride >= 0 && stride <= kMost, "a stride must not be negative");
  require(is_inside(at + product(form.copies - 1, stride), size, arena),
          "an array must lie inside of its arena");
}

void check_form(const ArrayForm& form, std::size_t selections) {
  const std::int64_t bytes = form.item_bytes;
  const bool is_known = form.kind == ArrayKind::items ? bytes > 0 && bytes <= kMostItemBytes
                        : form.kind == ArrayKind::offsets
                            ? bytes == 4 || bytes == 8
                            : form.kind == ArrayKind::indices && bytes == 8 && form.width > 0;
  require(is_known, "an array must be of a known kind");
  require(form.selection >= 0 && static_cast<std::size_t>(form.selection) < selections,
          "a selection must exist");
  require(form.copies >= 1 && form.width >= 0, "sizes must not be negative");
}

std::int64_t load_offset(Bytes source, std::int64_t at, std::int64_t bytes, std::int64_t index) {
  const auto where = static_cast<std::size_t>(at + bytes * index);
  return bytes == 8 ? load<std::int64_t>(source, where) : load<std::int32_t>(source, where);
}

// Appends rows, to the last span if they follow it.
void append(RowSpans& spans, const RowSpan& span) {
  if (span.count == 0) return;
  if (!spans.empty()) {
    RowSpan& last = spans.back();
    if (last.source == span.source && last.begin + last.count == span.begin) {
      last.count += span.count;
      return;
    }
  }
  spans.push_back(span);
}

std::int64_t count_rows(const RowSpans& spans) {
  std::int64_t count = 0;
  for (const RowSpan& span : spans) {
    require(span.count >= 0, "sizes must not be negative");
    count += span.count;
    if (count > kMost) throw std::bad_alloc();
  }
  return count;
}

}  // namespace

RowGather::RowGather(std::span<const Bytes> sources, std::vector<ArrayForm> forms,
                     std::vector<ArrayPlace> places, std::vector<RowSpans> selections)
    : forms_(std::move(forms)), places_(std::move(places)), spans_(std::move(selections)) {
  require(places_.size() == sources.size() * forms_.size(), "each array of a source needs a place");
  for (const Bytes& source : sources) source_sizes_.push_back(source.size());
  const std::size_t selections_count = spans_.size();
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    check_form(forms_[array], selections_count);
    for (std::size_t source = 0; source < sources.size(); ++source) {
      const ArrayPlace& found = place(static_cast<std::int64_t>(source), array);
      check_array(forms_[array], found.at, found.stride, size_of(forms_[array], found.rows),
                  sources[source].size());
    }
  }
  std::int64_t next = -1;  // rows that the array before leads to
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    const ArrayForm& form = forms_[array];
    Taken taken;
    taken.spans = next < 0 ? form.selection : next;
    const RowSpans& spans = spans_[static_cast<std::size_t>(taken.spans)];
    const std::int64_t rows = count_rows(spans);
    for (const RowSpan& span : spans) {
      if (span.source == kPadding) continue;
      require(span.source >= 0 && static_cast<std::size_t>(span.source) < sources.size(),
              "rows must be those of a source");
      const bool has_rows =
          form.kind == ArrayKind::indices
              ? span.begin >= 0 && span.begin <= kMost
              : is_inside(span.begin, span.count,
                          static_cast<std::size_t>(place(span.source, array).rows));
      require(has_rows, "rows must lie inside of their array");
    }
    if (form.kind == ArrayKind::items) {
      sizes.push_back(rows);
      next = -1;
    } else {
      require(array + 1 < forms_.size(), "a column must end with items");
      const bool is_offsets = form.kind == ArrayKind::offsets;
      RowSpans inside = is_offsets ? follow_offsets(sources, array, spans, taken.ends)
                                   : follow_indices(sources, array, spans, taken.ends);
      sizes.push_back(is_offsets ? rows : taken.ends.empty() ? 0 : taken.ends.back());
      next = static_cast<std::int64_t>(spans_.size());
      spans_.push_back(std::move(inside));
    }
    taken_.push_back(std::move(taken));
  }
}

const ArrayPlace& RowGather::place(std::int64_t source, std::size_t array) const {
  return places_[static_cast<std::size_t>(source) * forms_.size() + array];
}

RowSpans RowGather::follow_offsets(std::span<const Bytes> sources, std::size_t array,
                                   const RowSpans& spans, std::vector<std::int64_t>& ends) const {
  const ArrayForm& form = forms_[array];
  const RowSpan fill{static_cast<std::int64_t>(sources.size()) - 1, form.fill, form.fill_rows};
  const bool has_fill =
      fill.count == 0 ||
      (fill.source >= 0 && is_inside(fill.begin, fill.count,
                                     static_cast<std::size_t>(place(fill.source, array + 1).rows)));
  require(has_fill, "rows must lie inside of their array");
  RowSpans inside;
  ends.reserve(static_cast<std::size_t>(product(count_rows(spans), form.width)) + 1);
  ends.push_back(0);
  std::int64_t total = 0;
  const auto add = [&](const RowSpan& value) {
    append(inside, value);
    total += value.count;
    if (total > kMost) throw std::bad_alloc();
    ends.push_back(total);
  };
  for (const RowSpan& span : spans) {
    if (span.source == kPadding) {
      for (std::int64_t i = 0; i < span.count * form.width; ++i) add(fill);
      continue;
    }
    const Bytes source = sources[static_cast<std::size_t>(span.source)];
    const std::int64_t at = place(span.source, array).at;
    const std::int64_t most = place(span.source, array + 1).rows;
    const std::int64_t last = (span.begin + span.count) * form.width;
    for (std::int64_t i = span.begin * form.width; i < last; ++i) {
      const auto begin =
          std::clamp<std::int64_t>(load_offset(source, at, form.item_bytes, i), 0, most);
      const auto end =
          std::clamp<std::int64_t>(load_offset(source, at, form.item_bytes, i + 1), begin, most);
      add({span.source, begin, end - begin});
    }
  }
  if (form.item_bytes == 4 && total > std::numeric_limits<std::int32_t>::max()) {
    throw std::overflow_error("too many values for offsets of 32 bits");
  }
  return inside;
}

RowSpans RowGather::follow_indices(std::span<const Bytes> sources, std::size_t array,
                                   const RowSpans& spans, std::vector<std::int64_t>& ends) const {
  const std::int64_t row_bytes = 8 * forms_[array].width;
  RowSpans inside;
  ends.reserve(static_cast<std::size_t>(count_rows(spans)));
  std::int64_t total = 0;
  for (const RowSpan& span : spans) {
    if (span.source == kPadding) {
      ends.insert(ends.end(), static_cast<std::size_t>(span.count), total);
      continue;
    }
    const Bytes source = sources[static_cast<std::size_t>(span.source)];
    const ArrayPlace& from = place(span.source, array);
    const std::int64_t count = std::min(from.rows, place(span.source, array + 1).rows);
    const auto row_of = [&](std::int64_t entry) {
      return load<std::int64_t>(source, static_cast<std::size_t>(from.at + row_bytes * entry));
    };
    std::int64_t begin = 0;
    for (std::int64_t left = count; left > 0;) {  // finds the first entry of the span
      const std::int64_t half = left / 2;
      if (row_of(begin + half) < span.begin) {
        begin += half + 1;
        left -= half + 1;
      } else {
        left = half;
      }
    }
    for (std::int64_t row = span.begin; row < span.begin + span.count; ++row) {
      std::int64_t end = begin;
      while (end < count && row_of(end) <= row) ++end;
      append(inside, {span.source, begin, end - begin});
      total += end - begin;
      ends.push_back(total);
      begin = end;
    }
  }
  return inside;
}

void RowGather::write(std::span<const Bytes> sources, std::span<const ArrayTarget> targets,
                      MutableBytes out) const {
  const auto has_size = [](const Bytes& source, std::size_t size) { return source.size() == size; };
  require(std::equal(sources.begin(), sources.end(), source_sizes_.begin(), source_sizes_.end(),
                     has_size),
          "the arenas must be those of the plan");
  require(targets.size() == forms_.size(), "each array needs a target");
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    const ArrayForm& form = forms_[array];
    const ArrayTarget& target = targets[array];
    const std::int64_t size = size_of(form, sizes[array]);
    check_array(form, target.at, target.stride, size, out.size());
    const auto at = static_cast<std::size_t>(target.at);
    if (form.kind == ArrayKind::items) {
      write_items(sources, array, target, out);
    } else if (form.kind == ArrayKind::offsets) {
      write_offsets(array, out.subspan(at));
    } else {
      write_indices(sources, array, out.subspan(at));
    }
  }
}

void RowGather::write_items(std::span<const Bytes> sources, std::size_t array,
                            const ArrayTarget& target, MutableBytes out) const {
  const ArrayForm& form = forms_[array];
  const std::int64_t row_bytes = form.width * form.item_bytes;
  if (row_bytes == 0 || sizes[array] == 0) return;
  std::byte fill[kMostItemBytes] = {};
  std::memcpy(fill, &form.fill, sizeof(form.fill));
  for (std::int64_t copy = 0; copy < form.copies; ++copy) {
    std::byte* to = out.data() + target.at + copy * target.stride;
    for (const RowSpan& span : spans_[static_cast<std::size_t>(taken_[array].spans)]) {
      const std::int64_t size = span.count * row_bytes;
      if (span.source == kPadding) {
        for (std::int64_t done = 0; done < size; done += form.item_bytes) {
          std::memcpy(to + done, fill, static_cast<std::size_t>(form.item_bytes));
        }
      } else {
        const ArrayPlace& from = place(span.source, array);
        const std::byte* data = sources[static_cast<std::size_t>(span.source)].data() + from.at +
                                copy * from.stride + span.begin * row_bytes;
        if (size != 0) std::memcpy(to, data, static_cast<std::size_t>(size));
      }
      to += size;
    }
  }
}

void RowGather::write_offsets(std::size_t array, MutableBytes out) const {
  const std::vector<std::int64_t>& ends = taken_[array].ends;
  if (forms_[array].item_bytes == 8) {
    std::memcpy(out.data(), ends.data(), 8 * ends.size());
    return;
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    store(out, 4 * i, static_cast<std::int32_t>(ends[i]));
  }
}

void RowGather::write_indices(std::span<const Bytes> sources, std::size_t array,
                              MutableBytes out) const {
  const auto row_bytes = static_cast<std::size_t>(8 * forms_[array].width);
  const Taken& taken = taken_[array];
  std::size_t at = 0;
  // The next array has the same rows.
  for (const RowSpan& span : spans_[static_cast<std::size_t>(taken_[array + 1].spans)]) {
    const std::size_t size = row_bytes * static_cast<std::size_t>(span.count);
    const auto begin = static_cast<std::size_t>(place(span.source, array).at) +
                       row_bytes * static_cast<std::size_t>(span.begin);
    std::memcpy(out.data() + at, sources[static_cast<std::size_t>(span.source)].data() + begin,
                size);
    at += size;
  }
  std::size_t entry = 0;
  for (std::size_t row = 0; row < taken.ends.size(); ++row) {
    for (; entry < static_cast<std::size_t>(taken.ends[row]); ++entry) {
      store(out, entry * row_bytes, static_cast<std::int64_t>(row));
    }
  }
}

}  // namespace tio
