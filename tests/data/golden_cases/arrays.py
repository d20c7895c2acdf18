"""Raw bytes and serialized tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tf_json import Json

from tests.interop.tensor_messages import reasons_in
from tests.interop.tensor_protos import SHAPES, TYPES, draw_content, draw_tensor, raw_question

RAW_DTYPES = [
    *("int8", "uint8", "int16", "uint16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
]
# Of these TensorFlow cuts and pads.
PADDED_DTYPES = [d for d in RAW_DTYPES if d not in ("float16", "complex64", "complex128", "bool")]


def raw_questions(rng: random.Random) -> Iterator[Json]:
    """Every dtype in both byte orders; cut, padded, of the wrong size."""
    for dtype in RAW_DTYPES:
        for little in (True, False):
            values = [draw_content(rng, dtype, 3) for _ in range(2)]
            yield raw_question(values, dtype, little, None)
        yield raw_question([b"", b""], dtype, True, None)
        if len(draw_content(rng, dtype, 1)) > 1:
            yield raw_question([b"\x01" * 3], dtype, True, None)
    for dtype in PADDED_DTYPES:
        size = len(draw_content(rng, dtype, 1))
        for little in (True, False):
            values = [rng.randbytes(count) for count in (0, 1, 2 * size, 3 * size + 1)]
            yield raw_question(values, dtype, little, 2 * size)
    yield raw_question([b"abcd", b"ab"], "uint16", True, None)


def tensor_questions(rng: random.Random) -> Iterator[Json]:
    """Tensors as TensorFlow writes them: the question is asked of what ``array`` becomes."""
    for dtype in TYPES:
        for shape in SHAPES[1:]:
            count = 1
            for size in shape:
                count *= size
            array: Json = {"dtype": dtype, "shape": shape}
            if dtype == "string":
                array["values"] = [rng.randbytes(n % 3).hex() for n in range(count)]
            else:
                array["content"] = draw_content(rng, dtype, count).hex()
            yield {"op": "serialize_tensor", "array": array}


def odd_tensor_questions(rng: random.Random, count: int) -> Iterator[Json]:
    """Tensors in other forms that we take as TensorFlow does."""
    while count:
        tensor = draw_tensor(rng)
        serialized = tensor.encode(rng)
        if not reasons_in(serialized, tensor.dtype):
            count -= 1
            yield {"op": "parse_tensor", "serialized": serialized.hex(), "dtype": tensor.dtype}
