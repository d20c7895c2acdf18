// Bindings of bytes in memory.
#include <nanobind/nanobind.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>

#include "module_arrays.h"
#include "module_parts.h"

namespace tio {
namespace {

// A map outlives the descriptor it was made from, so none has to stay open for it.
nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bind_map_file(int descriptor,
                                                                      std::size_t size) {
  struct Mapped {
    void* memory;
    std::size_t size;
    ~Mapped() { munmap(memory, size); }
  };
  if (size == 0) throw nb::value_error("size must be positive");
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  std::unique_ptr<Mapped> mapped(new Mapped{memory, size});
  nb::capsule owner(mapped.release(), [](void* p) noexcept { delete static_cast<Mapped*>(p); });
  return {memory, {size}, owner};
}

}  // namespace

void bind_memory(nb::module_& m) {
  using namespace nb::literals;
  m.def("map_file", &bind_map_file, "descriptor"_a, "size"_a,
        "The first bytes of an open file, mapped: read-only, and valid once it is closed.");
}

}  // namespace tio
