"""TensorProto as a protobuf class, and the reasons why only this library rejects some."""

from __future__ import annotations

import math
import struct
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as ProtobufDecodeError

from tests.interop.tensor_protos import (
    HALF_COMPLEX,
    OTHER_LIST,
    OUT_OF_RANGE,
    TOO_MANY,
    TYPES,
)

TOO_LARGE = "a serialized tensor that is much larger than its message"
# Tags of more than 32 bits: protobuf's C++ library, which TensorFlow uses, ignores the upper bits.
ILLEGAL = "bytes that protobuf's Python parser refuses"

_Field = descriptor_pb2.FieldDescriptorProto
_LISTS = {
    5: _Field.TYPE_FLOAT,
    6: _Field.TYPE_DOUBLE,
    7: _Field.TYPE_INT32,
    8: _Field.TYPE_BYTES,
    9: _Field.TYPE_FLOAT,
    10: _Field.TYPE_INT64,
    11: _Field.TYPE_BOOL,
    12: _Field.TYPE_DOUBLE,
    13: _Field.TYPE_INT32,
    16: _Field.TYPE_UINT32,
    17: _Field.TYPE_UINT64,
}


def _message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="torchrec_io_test/tensor.proto", package="torchrec_io_test_tensor", syntax="proto3"
    )

    def add(message: Any, name: str, number: int, kind: Any, repeated: bool = False) -> None:
        field = message.field.add(name=name, number=number)
        field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{file.package}.{kind}"
        else:
            field.type = kind

    add(file.message_type.add(name="Dim"), "size", 1, _Field.TYPE_INT64)
    add(file.message_type.add(name="Shape"), "dim", 2, "Dim", repeated=True)
    tensor = file.message_type.add(name="Tensor")
    add(tensor, "dtype", 1, _Field.TYPE_INT32)
    add(tensor, "shape", 2, "Shape")
    add(tensor, "content", 4, _Field.TYPE_BYTES)
    for number, kind in _LISTS.items():
        add(tensor, f"list{number}", number, kind, repeated=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Tensor"))


Tensor: Any = _message()


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
