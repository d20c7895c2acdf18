#include "bindings/bindings.h"

namespace {

// A free-threaded Python turns the GIL on when it loads this module, unless it was told not to.
// Nothing here was tested without the GIL.
void check_gil() {
  const nanobind::object is_enabled =
      nanobind::getattr(nanobind::module_::import_("sys"), "_is_gil_enabled", nanobind::none());
  if (is_enabled.is_none() || nanobind::cast<bool>(is_enabled())) return;
  throw nanobind::import_error(
      "torchrec_io needs Python's global interpreter lock (GIL), which is off: unset PYTHON_GIL, "
      "or run Python without -X gil=0");
}

}  // namespace

NB_MODULE(_core, module) {
  check_gil();
  // Threads that end with the interpreter still hold objects. That is not a leak to report to
  // users.
  nanobind::set_leak_warnings(false);
  module.doc() = "Native core of torchrec_io. Private: its names may change in any release.";
  tio::bind_memory(module);
  tio::bind_exit(module);
  tio::bind_framing(module);
  tio::bind_deflate(module);
  tio::bind_index(module);
  tio::bind_reads(module);
  tio::bind_order(module);
  tio::bind_packing(module);
  tio::bind_parser(module);
  tio::bind_loading(module);
  tio::bind_example_list(module);
  tio::bind_step_pieces(module);
  tio::bind_encode(module);
  tio::bind_image(module);
  tio::bind_image_columns(module);
  tio::bind_rows(module);
  tio::bind_survey(module);
  tio::bind_timing(module);
}
