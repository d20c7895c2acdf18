#include "bindings/bindings.h"

NB_MODULE(_core, module) {
  // Threads that end with the interpreter still hold objects. That is not a leak to report to
  // users.
  nanobind::set_leak_warnings(false);
  module.doc() = "Native core of torchrec_io. Private: its names may change in any release.";
  tio::bind_memory(module);
  tio::bind_exit(module);
  tio::bind_framing(module);
  tio::bind_index(module);
  tio::bind_reads(module);
  tio::bind_order(module);
  tio::bind_parser(module);
  tio::bind_loading(module);
  tio::bind_example_list(module);
  tio::bind_encode(module);
  tio::bind_png(module);
  tio::bind_timing(module);
}
