// A Python module like that of JPEG decoding, whose decoder sleeps: it shows what else limits the
// number of images a second. Only benchmarks use it.
#include <chrono>
#include <memory>
#include <thread>

#include "bindings/image_format.h"

namespace tio {
namespace {

constexpr std::chrono::milliseconds kSleep(20);

struct SleepingDecoder {
  bool decode(std::span<const ViewTarget>, std::string&) {
    std::this_thread::sleep_for(kSleep);
    return true;
  }
};

struct Sleeping {
  using Decoder = SleepingDecoder;
  static constexpr bool kHasFractions = false;
  static std::unique_ptr<SleepingDecoder> make(bool) { return std::make_unique<SleepingDecoder>(); }
  static bool open(SleepingDecoder&, const StoredImages&, std::size_t, ImageHeader& header,
                   std::string&) {
    header = {375, 500, 3};
    return true;
  }
  static bool admits(Bytes) { return true; }
  static std::uint64_t most_pixels(Bytes) { return UINT64_MAX; }
};

}  // namespace
}  // namespace tio

NB_MODULE(_sleeping, module) {
  using namespace tio;                        // NOLINT: only in this function
  nb::module_::import_("torchrec_io._core");  // has the classes of arguments
  bind_exit(module);
  bind_columns<Sleeping>(module);
  module.attr("SECONDS") = std::chrono::duration<double>(kSleep).count();
}
