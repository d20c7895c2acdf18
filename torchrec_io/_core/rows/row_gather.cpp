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
constexpr std::int64_t kMostAlignment = 4096;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Returns the product of two numbers, at most kMost.
std::int64_t product(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) throw std::invalid_argument("sizes must not be negative");
  if (b != 0 && a > kMost / b) throw std::bad_alloc();
  return a * b;
}

// Returns the number of items in an array with that many rows.
std::int64_t count_items(const ArrayForm& form, std::int64_t rows, std::int64_t width) {
  if (form.kind == ArrayKind::padded) return rows + 1;
  return product(rows, width) + (form.kind == ArrayKind::offsets ? 1 : 0);
}

// Checks that an array of a source, and its copies, lie inside of its arena.
void check_array(const ArrayForm& form, const ArrayPlace& place, std::size_t arena) {
  const std::int64_t size = product(count_items(form, place.rows, place.width), form.item_bytes);
  require(is_inside(place.at, size, arena), "an array must lie inside of its arena");
  if (form.copies <= 1 || size == 0) return;
  require(place.stride >= 0 && place.stride <= kMost, "a stride must not be negative");
  require(is_inside(place.at + product(form.copies - 1, place.stride), size, arena),
          "an array must lie inside of its arena");
}

void check_form(const ArrayForm& form, std::size_t selections) {
  const std::int64_t bytes = form.item_bytes;
  const bool is_known = form.kind == ArrayKind::items ? bytes > 0 && bytes <= kMostItemBytes
                        : form.kind == ArrayKind::offsets || form.kind == ArrayKind::padded
                            ? bytes == 4 || bytes == 8
                            : form.kind == ArrayKind::indices && bytes == 8 && form.width > 0;
  require(is_known, "an array must be of a known kind");
  require(form.selection >= 0 && static_cast<std::size_t>(form.selection) < selections,
          "a selection must exist");
  require(form.copies >= 1 && form.width >= 0 && form.kept >= 0, "sizes must not be negative");
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
                     std::vector<ArrayPlace> places, std::vector<RowSpans> selections,
                     std::int64_t alignment)
    : forms_(std::move(forms)), places_(std::move(places)), spans_(std::move(selections)) {
  require(places_.size() == sources.size() * forms_.size(), "each array of a source needs a place");
  for (const Bytes& source : sources) source_sizes_.push_back(source.size());
  const std::size_t selections_count = spans_.size();
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    check_form(forms_[array], selections_count);
    for (std::size_t source = 0; source < sources.size(); ++source) {
      check_array(forms_[array], place(static_cast<std::int64_t>(source), array),
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
    taken.rows = rows;
    next = -1;
    if (form.kind != ArrayKind::items) {
      require(array + 1 < forms_.size(), "a column must end with items");
      RowSpans inside;
      if (form.kind == ArrayKind::offsets) {
        inside = follow_offsets(sources, array, spans, taken.ends);
      } else if (form.kind == ArrayKind::indices) {
        inside = follow_indices(sources, array, spans, taken.ends);
        taken.rows = taken.ends.empty() ? 0 : taken.ends.back();
      } else {
        inside = follow_padded(sources, array, spans, taken.ends);
      }
      next = static_cast<std::int64_t>(spans_.size());
      spans_.push_back(std::move(inside));
    }
    taken_.push_back(std::move(taken));
  }
  lay_out(alignment);
}

void RowGather::lay_out(std::int64_t alignment) {
  require(alignment >= 0 && alignment <= kMostAlignment, "an alignment must be a number of bytes");
  // More than kMost stays kMost: no memory is that large, and the numbers do not overflow.
  const auto rounded = [](std::int64_t bytes, std::int64_t to) {
    return std::min(kMost, (bytes + to - 1) / to * to);
  };
  const auto times = [](std::int64_t a, std::int64_t b) {
    return b != 0 && a > kMost / b ? kMost : a * b;
  };
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    const ArrayForm& form = forms_[array];
    const std::int64_t rows = taken_[array].rows;
    const bool is_padded = form.kind == ArrayKind::padded;
    const std::int64_t item = is_padded ? 8 : form.item_bytes;
    const std::int64_t end = form.kind == ArrayKind::offsets ? 1 : 0;
    const std::int64_t items = is_padded ? rows : times(rows, form.width) + end;
    const std::int64_t to = alignment == 0 ? item : alignment;
    const std::int64_t stride = rounded(times(items, item), to);
    arena_bytes = rounded(arena_bytes, to);
    arrays.insert(arrays.end(), {rows, arena_bytes, stride});
    arena_bytes = std::min(kMost, arena_bytes + times(form.copies, stride));
  }
  arena_bytes = rounded(arena_bytes, kMostItemBytes);
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
    const std::int64_t width = place(span.source, array).width;
    const std::int64_t copied = std::min({width, form.width, form.kept});
    for (std::int64_t row = span.begin; row < span.begin + span.count; ++row) {
      for (std::int64_t i = 0; i < copied; ++i) {
        add(rows_at(sources, span.source, array, row * width + i));
      }
      for (std::int64_t i = copied; i < form.width; ++i) add(fill);
    }
  }
  if (form.item_bytes == 4 && total > std::numeric_limits<std::int32_t>::max()) {
    throw std::overflow_error("too many values for offsets of 32 bits");
  }
  return inside;
}

RowSpans RowGather::follow_padded(std::span<const Bytes> sources, std::size_t array,
                                  const RowSpans& spans, std::vector<std::int64_t>& lengths) const {
  const ArrayForm& form = forms_[array];
  RowSpans inside;
  lengths.reserve(static_cast<std::size_t>(count_rows(spans)));
  for (const RowSpan& span : spans) {
    if (span.source == kPadding) {
      append(inside, {kPadding, 0, product(span.count, form.width)});
      lengths.insert(lengths.end(), static_cast<std::size_t>(span.count), 0);
      continue;
    }
    for (std::int64_t row = span.begin; row < span.begin + span.count; ++row) {
      RowSpan values = rows_at(sources, span.source, array, row);
      values.count = std::min({values.count, form.width, form.kept});
      append(inside, values);
      append(inside, {kPadding, 0, form.width - values.count});
      lengths.push_back(values.count);
    }
  }
  return inside;
}

RowSpan RowGather::rows_at(std::span<const Bytes> sources, std::int64_t source, std::size_t array,
                           std::int64_t index) const {
  const Bytes bytes = sources[static_cast<std::size_t>(source)];
  const std::int64_t at = place(source, array).at;
  const std::int64_t item_bytes = forms_[array].item_bytes;
  const std::int64_t most = place(source, array + 1).rows;
  const auto begin = std::clamp<std::int64_t>(load_offset(bytes, at, item_bytes, index), 0, most);
  const auto end =
      std::clamp<std::int64_t>(load_offset(bytes, at, item_bytes, index + 1), begin, most);
  return {source, begin, end - begin};
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

void RowGather::write(std::span<const Bytes> sources, MutableBytes out) const {
  const auto has_size = [](const Bytes& source, std::size_t size) { return source.size() == size; };
  require(std::equal(sources.begin(), sources.end(), source_sizes_.begin(), source_sizes_.end(),
                     has_size),
          "the arenas must be those of the plan");
  require(is_inside(0, arena_bytes, out.size()), "the copy must lie inside of its arena");
  for (std::size_t array = 0; array < forms_.size(); ++array) {
    const MutableBytes to = out.subspan(static_cast<std::size_t>(arrays[3 * array + 1]));
    const ArrayKind kind = forms_[array].kind;
    if (kind == ArrayKind::items) write_items(sources, array, to);
    if (kind == ArrayKind::offsets) write_offsets(array, to);
    if (kind == ArrayKind::indices) write_indices(sources, array, to);
    if (kind == ArrayKind::padded) write_lengths(array, to);
  }
}

void RowGather::write_items(std::span<const Bytes> sources, std::size_t array,
                            MutableBytes out) const {
  const ArrayForm& form = forms_[array];
  if (form.width == 0 || taken_[array].rows == 0) return;
  std::byte fill[kMostItemBytes] = {};
  std::memcpy(fill, &form.fill, sizeof(form.fill));
  std::byte* to = nullptr;
  const auto add_padding = [&](std::int64_t count) {
    const std::int64_t bytes = count * form.item_bytes;
    if (bytes == 0) return;
    std::memcpy(to, fill, static_cast<std::size_t>(form.item_bytes));
    for (std::int64_t done = form.item_bytes; done < bytes; done *= 2) {
      std::memcpy(to + done, to, static_cast<std::size_t>(std::min(done, bytes - done)));
    }
    to += bytes;
  };
  const auto add_items = [&](const std::byte* data, std::int64_t bytes) {
    if (bytes != 0) std::memcpy(to, data, static_cast<std::size_t>(bytes));
    to += bytes;
  };
  bool is_whole = form.kept >= form.width;  // rows are copied as they are
  for (std::size_t source = 0; source < sources.size(); ++source) {
    const ArrayPlace& found = place(static_cast<std::int64_t>(source), array);
    is_whole = is_whole && (found.rows == 0 || found.width == form.width);
  }
  const std::int64_t row_bytes = form.width * form.item_bytes;
  for (std::int64_t copy = 0; copy < form.copies; ++copy) {
    to = out.data() + copy * arrays[3 * array + 2];
    for (const RowSpan& span : spans_[static_cast<std::size_t>(taken_[array].spans)]) {
      if (span.source == kPadding) {
        add_padding(span.count * form.width);
        continue;
      }
      const ArrayPlace& from = place(span.source, array);
      const std::byte* data =
          sources[static_cast<std::size_t>(span.source)].data() + from.at + copy * from.stride;
      if (is_whole) {
        add_items(data + span.begin * row_bytes, span.count * row_bytes);
        continue;
      }
      const std::int64_t copied = std::min({from.width, form.width, form.kept});
      for (std::int64_t row = span.begin; row < span.begin + span.count; ++row) {
        add_items(data + row * from.width * form.item_bytes, copied * form.item_bytes);
        add_padding(form.width - copied);
      }
    }
  }
}

void RowGather::write_lengths(std::size_t array, MutableBytes out) const {
  const std::vector<std::int64_t>& lengths = taken_[array].ends;
  if (!lengths.empty()) std::memcpy(out.data(), lengths.data(), 8 * lengths.size());
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
