"""TensorProto as a protobuf class, and the reasons why only this library rejects some."""

from __future__ import annotations

import math
import struct
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError

from tests.interop.tensor_protos import (
    HALF_COMPLEX,
    OTHER_LIST,
    OUT_OF_RANGE,
    TOO_MANY,
    TYPES,
)
from tests.support.messages import make_messages

TOO_LARGE = "a serialized tensor that is much larger than its message"
# Tags of more than 32 bits: protobuf's C++ library, which TensorFlow uses, ignores the upper bits.
ILLEGAL = "bytes that protobuf's Python parser refuses"

# The fields of typed lists.
_LISTS = {
    5: "float",
    6: "double",
    7: "int32",
    8: "bytes",
    9: "float",
    10: "int64",
    11: "bool",
    12: "double",
    13: "int32",
    16: "uint32",
    17: "uint64",
}
Tensor: Any = make_messages(
    "torchrec_io_test_tensor",
    {
        "Dim": {"size 1": "int64"},
        "Shape": {"dim 2": "repeated Dim"},
        "Tensor": {
            "dtype 1": "int32",
            "shape 2": "Shape",
            "content 4": "bytes",
            **{f"list{number} {number}": f"repeated {kind}" for number, kind in _LISTS.items()},
        },
    },
)["Tensor"]


def reasons_in(serialized: bytes, dtype: str) -> set[str]:
    """Return the reasons to reject a tensor of this dtype that TensorFlow accepts."""
    try:
        message = Tensor.FromString(serialized)
    except ProtobufDecodeError:
        return {ILLEGAL}
    _, field, form = TYPES[dtype]
    count = math.prod(dim.size for dim in message.shape.dim)
    values = list(getattr(message, f"list{field}"))
    size = count * (8 if dtype == "string" else struct.calcsize("<" + form))
    if size > max(2**20, 64 * len(serialized)):
        return {TOO_LARGE}
    if message.content:
        return set() if count else {TOO_MANY}
    if not values:
        others = any(getattr(message, f"list{number}") for number in _LISTS)
        return {OTHER_LIST} if others else set()
    found = set()
    parts = len(form) or 1
    if len(values) % parts:
        found.add(HALF_COMPLEX)
    if len(values) // parts > count:
        found.add(TOO_MANY)
    if any(not fits(value, form) for value in values):
        found.add(OUT_OF_RANGE)
    return found


def fits(value: Any, form: str) -> bool:
    """Return whether a number of a list of a wider dtype is in the range of its dtype."""
    if form not in ("B", "b", "H", "h"):
        return True
    bits = 8 * struct.calcsize(form)
    if form.isupper():
        return bool(0 <= value < 2**bits)
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
