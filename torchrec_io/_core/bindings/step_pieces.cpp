#include "example/step_pieces.h"

#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "wire/crc32c.h"

namespace tio {
namespace {

std::vector<std::string> names_of(const Sequence<nb::bytes>& keys) {
  std::vector<std::string> names;
  for (const nb::handle key : nb::tuple(keys)) {
    const Bytes bytes = bytes_of(key);
    names.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return names;
}

void init_keys(PieceKeys* self, const Sequence<nb::bytes>& context,
               const Sequence<nb::bytes>& lists, const Sequence<nb::bytes>& steps,
               const Sequence<std::uint32_t>& item_bytes, bool in_lists) {
  const std::vector<std::string> names = names_of(steps);
  const std::vector<std::uint32_t> sizes = Items<std::uint32_t>(item_bytes).values();
  if (names.size() != sizes.size()) throw nb::value_error("each key of steps must have a size");
  PieceKeys keys{names_of(context), names_of(lists), {}, in_lists};
  for (std::size_t i = 0; i < names.size(); ++i) keys.steps.push_back({names[i], sizes[i]});
  new (self) PieceKeys(std::move(keys));
}

auto bind_locate_pieces(const Records& records, const PieceKeys& keys) {
  static_assert(sizeof(Piece) == 3 * sizeof(std::uint32_t));
  StepPieces found;
  {
    const ReleasedGil unlocked;
    found = locate_pieces(records, keys);
  }
  auto owner = std::make_unique<std::vector<Piece>>(std::move(found.pieces));
  auto* const data = reinterpret_cast<std::uint32_t*>(owner->data());
  const std::size_t size = 3 * owner->size();
  return std::make_tuple(to_numpy(std::move(found.counts)), to_numpy(data, size, std::move(owner)));
}

std::vector<std::int64_t> bind_mismatches(const Buffer& buffer, const Numbers& starts,
                                          const Numbers& sizes, const Vector<std::uint32_t>& crcs) {
  const Bytes bytes = bytes_of(buffer);
  if (starts.size() != crcs.size() || !Records::fits(bytes, span_of(starts), span_of(sizes))) {
    throw nb::value_error("each part must lie inside the buffer and have a CRC");
  }
  const ReleasedGil unlocked;
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < crcs.size(); ++i) {
    const Bytes part = bytes.subspan(static_cast<std::size_t>(starts.data()[i]),
                                     static_cast<std::size_t>(sizes.data()[i]));
    if (crc32c(part) != crcs.data()[i]) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

}  // namespace

void bind_step_pieces(nb::module_& m) {
  nb::class_<PieceKeys>(m, "PieceKeys", "The stored features of which pieces are located.")
      .def("__init__", &init_keys, nb::kw_only(), "context"_a, "lists"_a, "steps"_a, "item_bytes"_a,
           "in_lists"_a,
           "Args:\n"
           "    context: Features that are one piece.\n"
           "    lists: Feature lists that are one piece.\n"
           "    steps: Features, or feature lists, with a piece for each step.\n"
           "    item_bytes: Bytes of a step of each of these, if it is a list of floats; else 0.\n"
           "    in_lists: Whether `steps` are feature lists.");
  m.def("locate_pieces", &bind_locate_pieces, "records"_a, "keys"_a,
        "Locate the parts of records of which messages with some of their steps can be made.\n\n"
        "Returns:\n"
        "    The number of pieces of each record, int64 [records]; 0 if it is encoded in an\n"
        "    unusual way. And offset in the record, size, and CRC-32C of each piece, uint32\n"
        "    [3 * pieces]: of each key of `context` and `lists`, then of the steps of each key of\n"
        "    `steps`. Pieces that a record lacks have size 0.");
  m.def("find_mismatches", &bind_mismatches, "buffer"_a, "starts"_a, "sizes"_a, "crcs"_a,
        "Return the positions of the parts of a buffer whose CRC-32C differs.\n\n"
        "Args:\n"
        "    buffer: Bytes that contain the parts.\n"
        "    starts: Offset of each part in the buffer.\n"
        "    sizes: Bytes of each part.\n"
        "    crcs: Expected CRC-32C of each part.");
}

}  // namespace tio
