#include "inflate/stream.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>

namespace tio {
namespace {

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

std::uint32_t flag_of(InflateStream::Format format) {
  switch (format) {
    case InflateStream::Format::gzip: return ISAL_GZIP;
    case InflateStream::Format::zlib: return ISAL_ZLIB;
    default: return ISAL_DEFLATE;
  }
}

const char* describe(int code) {
  switch (code) {
    case ISAL_NEED_DICT: return "it needs a dictionary";
    case ISAL_INVALID_BLOCK: return "a block is invalid";
    case ISAL_INVALID_SYMBOL: return "a symbol is invalid";
    case ISAL_INVALID_LOOKBACK: return "a distance is too large";
    case ISAL_INVALID_WRAPPER: return "the header is invalid";
    case ISAL_UNSUPPORTED_METHOD: return "the compression method is unknown";
    case ISAL_INCORRECT_CHECKSUM: return "the checksum is wrong";
    default: return "it is invalid";
  }
}

}  // namespace

struct InflateStream::State {
  inflate_state isal;
  const char* fault = nullptr;

  // Returns the whole bytes that ISA-L has read ahead to the input, so that its position is exact.
  // A header that was cut is kept after them; they are decoded with it.
  void return_bytes() {
    if (isal.tmp_in_size != 0) return;
    const auto bytes = static_cast<std::uint32_t>(isal.read_in_length) / 8;
    isal.next_in -= bytes;
    isal.avail_in += bytes;
    isal.read_in_length %= 8;
    isal.read_in &= (std::uint64_t{1} << isal.read_in_length) - 1;
  }
};

InflateStream::InflateStream(Format format) : state_(std::make_unique<State>()) {
  isal_inflate_init(&state_->isal);
  state_->isal.crc_flag = flag_of(format);
}

InflateStream::InflateStream(Bytes window, int bit, std::byte first)
    : InflateStream(Format::deflate) {
  inflate_state& isal = state_->isal;
  const Bytes last = window.last(std::min(window.size(), kWindowBytes));
  if (!last.empty()) {
    isal_inflate_set_dict(
        &isal, const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(last.data())),
        static_cast<std::uint32_t>(last.size()));
  }
  if (bit != 0) {
    isal.read_in = std::to_integer<std::uint64_t>(first) >> bit;
    isal.read_in_length = 8 - bit;
  }
}

InflateStream::~InflateStream() = default;

bool InflateStream::decode(Bytes in, MutableBytes out, Inflated& progress, std::string& reason) {
  inflate_state& isal = state_->isal;
  progress = {};
  if (state_->fault == nullptr && !is_done()) {
    const auto in_size = static_cast<std::uint32_t>(std::min(in.size(), kMostAtOnce));
    const auto out_size = static_cast<std::uint32_t>(std::min(out.size(), kMostAtOnce));
    isal.next_in = const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(in.data()));
    isal.avail_in = in_size;
    isal.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    isal.avail_out = out_size;
    const int code = isal_inflate(&isal);
    if (code != ISAL_DECOMP_OK) {
      state_->fault = describe(code);
    } else {
      state_->return_bytes();
      progress = {in_size - isal.avail_in, out_size - isal.avail_out};
    }
  }
  if (state_->fault != nullptr) reason = state_->fault;
  return state_->fault == nullptr;
}

bool InflateStream::is_done() const {
  return state_->fault == nullptr && state_->isal.block_state == ISAL_BLOCK_FINISH;
}

}  // namespace tio
