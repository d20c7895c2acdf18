#include "jpeg/decoder.h"

#include <csetjmp>
#include <cstdio>
// The header of libjpeg needs those above.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <bit>
#include <new>
#include <stdexcept>
#include <vector>

#include "image/part.h"
#include "image/pixels.h"

namespace tio {
namespace {

// Chroma is interpolated from neighbors, so the columns at the edge of what is decoded may differ
// from those of the whole image.
constexpr std::int64_t kMargin = 4;

// libjpeg-turbo writes a row past the caches if it starts at a multiple of the size of a register.
// Reading such a row takes longer than decoding it. So each row starts this far after a multiple.
constexpr std::size_t kRegisterBytes = 32;
constexpr std::size_t kUnaligned = 8;

// Returns the distance between rows. It is an odd multiple, because rows whose distance is a large
// power of two take each other's places in the caches.
std::size_t step_between_rows(std::size_t bytes) {
  const std::size_t whole = (bytes + kRegisterBytes - 1) / kRegisterBytes;
  return (whole | 1) * kRegisterBytes;
}

struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

ErrorManager& errors_of(j_common_ptr common) {
  return *reinterpret_cast<ErrorManager*>(common->err);
}

[[noreturn]] void fail(j_common_ptr common) {
  ErrorManager& errors = errors_of(common);
  errors.base.format_message(common, errors.text);
  std::longjmp(errors.jump, 1);
}

// Messages that say nothing about the pixels: bytes between the end of the pixels and a marker, and
// unknown versions of application segments.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
}

// Whether a call failed because the system has no more memory, not because of the image.
bool lacks_memory(const jpeg_error_mgr& errors) {
  const int place = errors.msg_parm.i[0];  // of jmemmgr.c: 1 and 3 are sizes that are too large
  return errors.msg_code == JERR_OUT_OF_MEMORY && place != 1 && place != 3;
}

void on_message(j_common_ptr common, int level) {
  if (level < 0 && !is_harmless(common->err->msg_code)) fail(common);
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct image{};
  ErrorManager errors{};
  bool is_fast = false;

  // Rows that were decoded. The last ones are kept in a ring.
  int stored_levels = 0;  // levels of a pixel before colors are converted: 1 or 4
  bool is_luma = false;   // colors become one level, their luma
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  std::int64_t next_row = 0;
  std::int64_t ring_mask = 0;  // of the number of rows in the ring, a power of two
  std::vector<std::uint8_t> ring;
  std::vector<std::uint8_t*> ring_rows;  // where each row of the ring starts

  ~State() { jpeg_destroy_decompress(&image); }

  // Calls a function of libjpeg, which may fail. The function must not need destructors.
  template <class Call>
  bool call(const Call& function, std::string& reason) {
    if (setjmp(errors.jump) != 0) {
      jpeg_abort_decompress(&image);
      if (lacks_memory(errors.base)) throw std::bad_alloc();
      reason = errors.text;
      return false;
    }
    function();
    return true;
  }

  void reset();
  bool start(std::span<const ViewTarget> parts, std::string& reason);
  bool cut_columns(std::int64_t left, std::int64_t right, std::string& reason);
  void reserve_rows(std::int64_t count);
  bool skip_rows(std::int64_t until, std::string& reason);
  bool read_rows(std::int64_t until, std::string& reason);

  bool has_luma() const { return image.jpeg_color_space == JCS_YCbCr; }
  int levels() const { return is_luma ? 1 : stored_levels; }
  std::uint8_t* row_at(std::int64_t row) { return ring_rows[row & ring_mask]; }
  // Returns where a column starts in a row.
  const std::uint8_t* at_column(std::int64_t row, std::int64_t column) {
    return row_at(row) + (column - first_column) * levels();
  }
};

JpegDecoder::JpegDecoder(bool is_fast) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.is_fast = is_fast;
  state.image.err = jpeg_std_error(&state.errors.base);
  state.errors.base.error_exit = fail;
  state.errors.base.emit_message = on_message;
}

JpegDecoder::~JpegDecoder() = default;

// Forgets the image before. Only a new decompressor has none of its tables: a file without tables
// would be decoded with those.
void JpegDecoder::State::reset() {
  jpeg_destroy_decompress(&image);
  std::string reason;
  if (!call([this] { jpeg_create_decompress(&image); }, reason)) {
    throw std::runtime_error("libjpeg-turbo cannot be used: " + reason);
  }
}

bool JpegDecoder::open(Bytes file, ImageHeader& header, std::string& reason) {
  State& state = *state_;
  jpeg_decompress_struct& image = state.image;
  state.reset();
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const auto size = static_cast<unsigned long>(file.size());
  if (file.empty()) {
    reason = "it is empty";
    return false;
  }
  const auto read_header = [&image, bytes, size] {
    jpeg_mem_src(&image, bytes, size);
    jpeg_read_header(&image, TRUE);
  };
  if (!state.call(read_header, reason)) return false;
  header = {image.image_height, image.image_width, image.num_components};
  if (header.components != 1 && header.components != 3 && header.components != 4) {
    reason = "it has " + std::to_string(header.components) + " components";
    return false;
  }
  return true;
}

bool JpegDecoder::State::start(std::span<const ViewTarget> parts, std::string& reason) {
  const int channels = parts[0].target.channels;
  image.dct_method = is_fast ? JDCT_IFAST : JDCT_ISLOW;
  image.do_fancy_upsampling = TRUE;
  image.scale_num = static_cast<unsigned>(parts[0].view.eighths);
  image.scale_denom = 8;
  if (image.num_components == 4) {
    image.out_color_space = JCS_CMYK;
  } else if (image.num_components == 1 || (is_fast && channels < 3 && has_luma())) {
    image.out_color_space = JCS_GRAYSCALE;
  } else {
    image.out_color_space = JCS_EXT_RGBX;
  }
  stored_levels = image.out_color_space == JCS_GRAYSCALE ? 1 : 4;
  is_luma = channels < 3 && stored_levels == 4;
  next_row = 0;
  if (!call([this] { jpeg_start_decompress(&image); }, reason)) return false;
  const auto fits = [this](const ViewTarget& part) {
    return part.view.fits(image.output_height, image.output_width);
  };
  if (!std::ranges::all_of(parts, fits)) {
    reason = "the part to decode is not in the image";
    jpeg_abort_decompress(&image);
    return false;
  }
  return true;
}

bool JpegDecoder::State::cut_columns(std::int64_t left, std::int64_t right, std::string& reason) {
  left = std::max<std::int64_t>(left - kMargin, 0);
  right = std::min<std::int64_t>(right + kMargin, image.output_width);
  auto offset = static_cast<JDIMENSION>(left);
  auto width = static_cast<JDIMENSION>(right - left);
  if (width < image.output_width) {
    if (!call([&] { jpeg_crop_scanline(&image, &offset, &width); }, reason)) return false;
  }
  first_column = offset;
  columns = width;
  return true;
}

void JpegDecoder::State::reserve_rows(std::int64_t count) {
  const auto rows = std::bit_ceil(static_cast<std::size_t>(count));
  ring_mask = static_cast<std::int64_t>(rows) - 1;
  const std::size_t step = step_between_rows(static_cast<std::size_t>(columns * stored_levels));
  ring.resize(step * rows + kRegisterBytes);
  const std::size_t over = std::bit_cast<std::uintptr_t>(ring.data()) % kRegisterBytes;
  const std::size_t first = (kRegisterBytes - over) % kRegisterBytes + kUnaligned;
  ring_rows.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) ring_rows[row] = &ring[first + row * step];
}

bool JpegDecoder::State::skip_rows(std::int64_t until, std::string& reason) {
  const std::int64_t count = until - kMargin;
  if (count <= next_row) return true;
  const auto skip = static_cast<JDIMENSION>(count - next_row);
  if (!call([this, skip] { jpeg_skip_scanlines(&image, skip); }, reason)) return false;
  next_row = count;
  return true;
}

bool JpegDecoder::State::read_rows(std::int64_t until, std::string& reason) {
  const auto count = static_cast<std::size_t>(columns);
  while (next_row < until) {
    const std::int64_t end = std::min(until, next_row + ring_mask + 1);
    const auto read = [this, end] {
      for (std::int64_t row = next_row; row < end;) {
        const std::int64_t slot = row & ring_mask;
        const auto most = static_cast<JDIMENSION>(std::min(end - row, ring_mask + 1 - slot));
        row += jpeg_read_scanlines(&image, &ring_rows[slot], most);
      }
    };
    if (!call(read, reason)) return false;
    for (; next_row < end; ++next_row) {
      if (image.out_color_space == JCS_CMYK) convert_cmyk(row_at(next_row), count);
      if (is_luma) convert_to_luma(row_at(next_row), count);
    }
  }
  return true;
}

bool JpegDecoder::decode(std::span<const ViewTarget> parts, std::string& reason) {
  State& state = *state_;
  const bool is_done = state.start(parts, reason) && write_parts(state, parts, reason);
  // The rows below are not decoded. An image takes no memory after it was decoded.
  jpeg_destroy_decompress(&state.image);
  return is_done;
}

}  // namespace tio
