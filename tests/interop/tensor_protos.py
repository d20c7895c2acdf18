"""Random TensorProtos of every form, and raw bytes."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass
from typing import Any

from tests.support import wire
from tests.support.wire import delimited, tag, varint

OTHER_LIST = "a serialized tensor whose values are in the list of another dtype"
TOO_MANY = "a serialized tensor with more values than its shape holds"
OUT_OF_RANGE = "a value of a serialized tensor outside of its dtype's range"
HALF_COMPLEX = "half a complex number at the end of a serialized tensor"

# dtype: its number in types.proto, the field of its list, its struct format.
TYPES: dict[str, tuple[int, int, str]] = {
    "float32": (1, 5, "f"),
    "float64": (2, 6, "d"),
    "int32": (3, 7, "i"),
    "uint8": (4, 7, "B"),
    "int16": (5, 7, "h"),
    "int8": (6, 7, "b"),
    "string": (7, 8, ""),
    "complex64": (8, 9, "ff"),
    "int64": (9, 10, "q"),
    "bool": (10, 11, "?"),
    "bfloat16": (14, 13, "H"),
    "uint16": (17, 7, "H"),
    "complex128": (18, 12, "dd"),
    "float16": (19, 13, "H"),
    "uint32": (22, 16, "I"),
    "uint64": (23, 17, "Q"),
}
SHAPES = [[], [], [1], [2], [3], [0], [2, 2], [2, 0], [1, 2, 1]]


@dataclass(frozen=True)
class TensorProto:
    """A tensor. ``numbers`` are the values of its typed list; complex numbers have two parts."""

    dtype: str
    shape: list[int]
    content: bytes
    field: int
    numbers: list[Any]

    def encode(self, rng: random.Random) -> bytes:
        """Encode the fields in any order and equivalent form."""
        parts = [tag(1, wire.VARINT) + varint(TYPES[self.dtype][0])]
        dims = b"".join(delimited(2, tag(1, wire.VARINT) + varint(n)) for n in self.shape)
        parts.append(delimited(2, dims))
        if self.content:
            parts.append(delimited(4, self.content))
        cut = rng.randint(0, len(self.numbers))
        first, second = self.numbers[:cut], self.numbers[cut:]
        # The parts of a list keep their order, with other fields in between.
        places = sorted(rng.randint(0, len(parts)) for _ in range(2))
        parts.insert(places[1], spell_numbers(rng, self.field, second))
        parts.insert(places[0], spell_numbers(rng, self.field, first))
        if rng.random() < 0.2:
            parts.insert(rng.randint(0, len(parts)), delimited(99, b"?"))
        return b"".join(parts)


def spell_numbers(rng: random.Random, field: int, numbers: list[Any]) -> bytes:
    """Encode values of a list, packed or not."""
    if field == 8:
        return b"".join(delimited(8, value) for value in numbers)
    if field in (5, 6, 9, 12):
        single = field in (5, 9)
        wire_type = wire.FIXED32 if single else wire.FIXED64
        spelled = [struct.pack("<f" if single else "<d", number) for number in numbers]
    else:
        wire_type = wire.VARINT
        spelled = [varint(int(number)) for number in numbers]
    if rng.random() < 0.7:
        return delimited(field, b"".join(spelled)) if spelled else b""
    return b"".join(tag(field, wire_type) + number for number in spelled)


def draw_number(rng: random.Random, field: int, form: str) -> Any:
    """Draw a value for a typed list, sometimes out of range of a narrow dtype."""
    if field == 8:
        return rng.randbytes(rng.choice([0, 1, 3]))
    if field in (5, 6, 9, 12):
        return rng.choice([0.0, -0.0, 1.5, -2.25, 2.0**-100, math.inf])
    if field == 11:
        return rng.choice([0, 1, 1, 7])
    if rng.random() < 0.04:
        return rng.choice([-1, 300, -129, 70000])
    size = {"q": 63, "Q": 64, "I": 32, "i": 31, "H": 16, "h": 15, "B": 8, "b": 7}.get(form, 7)
    return rng.choice([rng.getrandbits(size), rng.randint(0, 5)])


def draw_content(rng: random.Random, dtype: str, count: int) -> bytes:
    """Draw the bytes of the given number of elements."""
    if dtype == "string":
        values = [rng.randbytes(rng.choice([0, 1, 3])) for _ in range(count)]
        return b"".join(varint(len(value)) for value in values) + b"".join(values)
    if dtype == "bool":
        return bytes(rng.choice([0, 1]) for _ in range(count))
    return rng.randbytes(count * struct.calcsize("<" + TYPES[dtype][2]))


def draw_tensor(rng: random.Random) -> TensorProto:
    """Draw a tensor with content, a typed list, both or neither, sometimes of the wrong size."""
    dtype = rng.choice(list(TYPES))
    _, field, form = TYPES[dtype]
    shape = rng.choice(SHAPES)
    count = math.prod(shape)
    content = b""
    if rng.random() < 0.4:
        content = draw_content(rng, dtype, count)
        if rng.random() < 0.1:
            content = rng.choice([content[:-1], content + b"\0"])
    numbers: list[Any] = []
    if not content or rng.random() < 0.1:
        if rng.random() < 0.05:
            field = rng.choice([7, 8, 10])
        wanted = rng.choice([count, count, count, 0, max(0, count - 1), count + 1])
        wanted *= len(form) or 1
        if len(form) == 2 and rng.random() < 0.1:
            wanted += 1
        numbers = [draw_number(rng, field, form) for _ in range(wanted)]
    return TensorProto(dtype, shape, content, field, numbers)


# ---- raw bytes ----


def raw_question(
    values: list[bytes], dtype: str, little: bool, fixed: int | None
) -> dict[str, Any]:
    """Draw the arguments of decode_raw."""
    return {
        "op": "decode_raw",
        "values": [value.hex() for value in values],
        "dtype": dtype,
        "little_endian": little,
        "fixed_length": fixed,
    }
