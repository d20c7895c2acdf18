#include "bindings/arrays.h"
#include "deflate/block_search.h"

namespace tio {

void bind_deflate(nb::module_& m) {
  m.def(
      "find_deflate_block",
      [](const Buffer& data, std::uint64_t begin, std::uint64_t end) {
        return find_deflate_block(bytes_of(data), begin, end);
      },
      Unlocked(), "data"_a, "begin"_a, "end"_a,
      "Find a place in a deflate stream where a block can start that is not the last one.\n\n"
      "A block need not start there: try it. Blocks with fixed codes are not found.\n\n"
      "Args:\n"
      "    data: Part of the stream.\n"
      "    begin: First bit where the block may start; bit 0 is the lowest of the first byte.\n"
      "    end: Bit before which it must start.\n\n"
      "Returns:\n"
      "    The first such bit; None if there is none whose header lies in `data`.");
}

}  // namespace tio
