"""What is in a record whose schema nobody knows: for showing it, and for guessing a schema.

Plain Python, one record at a time; :mod:`torchrec_io.parsing.parser` is for training. Reads as
protobuf does, but for keys that are not UTF-8: these are kept, with the bytes in question as
surrogates.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["bytes", "float", "int64", "none"]


class PeekedFeature(NamedTuple):
    """One feature: what kind of list it holds, and the values. Kind ``"none"`` holds no list."""

    kind: Kind
    values: list[bytes] | list[float] | list[int]


def peek(record: bytes) -> dict[str, PeekedFeature] | None:
    """The features of a serialized ``tf.train.Example``; None if the bytes are none.

    An empty record is an Example without features, and so are the few other byte strings that
    happen to be legal protobuf. Of a ``tf.train.SequenceExample`` this gives the context.
    """
    features: dict[str, PeekedFeature] = {}
    try:
        _read_example(record, 0, len(record), features)
    except _IllegalError:
        return None
    return features


def peek_names(record: bytes) -> list[str] | None:
    """The names of an Example's features, as :func:`peek` has them, without a look at values."""
    try:
        return [
            _split_entry(record, entry_at, entry_end)[0]
            for tag, at, end in _fields(record, 0, len(record))
            if tag == _FIRST
            for entry, entry_at, entry_end in _fields(record, at, end)
            if entry == _FIRST
        ]
    except _IllegalError:
        return None


def peek_sequence(
    record: bytes,
) -> tuple[dict[str, PeekedFeature], dict[str, list[PeekedFeature]]] | None:
    """Context and feature lists of a serialized ``tf.train.SequenceExample``, as :func:`peek`."""
    context: dict[str, PeekedFeature] = {}
    lists: dict[str, list[PeekedFeature]] = {}
    try:
        for tag, at, end in _fields(record, 0, len(record)):
            if tag == _FIRST:
                _read_features(record, at, end, context)
            elif tag == _SECOND:
                _read_lists(record, at, end, lists)
    except _IllegalError:
        return None
    return context, lists


class PeekedLists(NamedTuple):
    """A context, and examples that share it."""

    context: dict[str, PeekedFeature]
    examples: list[dict[str, PeekedFeature]]


def peek_lists(record: bytes) -> PeekedLists | None:
    """Context and examples of a serialized ``ExampleListWithContext``, as :func:`peek`."""
    lists = PeekedLists({}, [])
    try:
        for tag, at, end in _fields(record, 0, len(record)):
            if tag == _FIRST:
                lists.examples.append({})
                _read_example(record, at, end, lists.examples[-1])
            elif tag == _SECOND:
                _read_example(record, at, end, lists.context)
    except _IllegalError:
        return None
    return lists


def is_tensor_proto(data: bytes) -> bool:
    """Whether bytes may be a ``TensorProto`` as ``tf.io.serialize_tensor`` writes it.

    That starts with the dtype and the shape; what follows is not compared with these.
    """
    if not data.startswith(bytes([_ONE_VARINT])):
        return False
    try:
        tags = [tag for tag, _, _ in _fields(data, 0, len(data))]
        shape_at, shape_end = next(
            (at, end) for tag, at, end in _fields(data, 0, len(data)) if tag == _SECOND
        )
        shape = [tag for tag, _, _ in _fields(data, shape_at, shape_end)]
    except (_IllegalError, StopIteration):
        return False
    return set(shape) <= {_SECOND} and set(tags[2:]) <= _TENSOR_VALUES


# ---- messages ----

# Tags of the fields 1, 2 and 3 where they hold bytes or a message.
_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A
# Tags of field 1 where it holds one number.
_ONE_VARINT, _ONE_FIXED32 = 0x08, 0x0D

# The fields of a TensorProto that hold values: bytes, or a list of each kind of number.
_TENSOR_VALUES = {number << 3 | 2 for number in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17)}

_KINDS: dict[int, Kind] = {_FIRST: "bytes", _SECOND: "float", _THIRD: "int64"}


def _read_example(data: bytes, at: int, end: int, features: dict[str, PeekedFeature]) -> None:
    for tag, part_at, part_end in _fields(data, at, end):
        if tag == _FIRST:
            _read_features(data, part_at, part_end, features)


def _read_features(data: bytes, at: int, end: int, features: dict[str, PeekedFeature]) -> None:
    for tag, entry_at, entry_end in _fields(data, at, end):
        if tag == _FIRST:
            key, values = _split_entry(data, entry_at, entry_end)
            features[key] = _read_feature(data, values)


def _read_lists(data: bytes, at: int, end: int, lists: dict[str, list[PeekedFeature]]) -> None:
    for tag, entry_at, entry_end in _fields(data, at, end):
        if tag == _FIRST:
            key, values = _split_entry(data, entry_at, entry_end)
            lists[key] = [
                _read_feature(data, [(step_at, step_end)])
                for list_at, list_end in values
                for step, step_at, step_end in _fields(data, list_at, list_end)
                if step == _FIRST
            ]


def _split_entry(data: bytes, at: int, end: int) -> tuple[str, list[tuple[int, int]]]:
    """Key and value of a map's entry. A value given in parts is what the parts make together."""
    key = b""
    values = []
    for tag, field_at, field_end in _fields(data, at, end):
        if tag == _FIRST:
            key = data[field_at:field_end]
        elif tag == _SECOND:
            values.append((field_at, field_end))
    return key.decode("utf-8", "surrogateescape"), values


def _read_feature(data: bytes, parts: list[tuple[int, int]]) -> PeekedFeature:
    """The last kind wins; lists of that kind that follow each other are joined."""
    texts: list[bytes] = []
    floats: list[float] = []
    ints: list[int] = []
    kind: Kind = "none"
    for at, end in parts:
        for tag, list_at, list_end in _fields(data, at, end):
            seen = _KINDS.get(tag)
            if seen is None:
                continue
            if seen != kind:
                texts, floats, ints = [], [], []
            kind = seen
            if kind == "bytes":
                _read_texts(data, list_at, list_end, texts)
            elif kind == "float":
                _read_floats(data, list_at, list_end, floats)
            else:
                _read_ints(data, list_at, list_end, ints)
    return PeekedFeature(kind, texts or floats or ints)


def _read_texts(data: bytes, at: int, end: int, texts: list[bytes]) -> None:
    texts += [data[start:stop] for tag, start, stop in _fields(data, at, end) if tag == _FIRST]


def _read_floats(data: bytes, at: int, end: int, floats: list[float]) -> None:
    for tag, start, stop in _fields(data, at, end):
        if tag in (_FIRST, _ONE_FIXED32):
            count, spare = divmod(stop - start, 4)
            if spare:
                raise _IllegalError
            floats += struct.unpack_from(f"<{count}f", data, start)


def _read_ints(data: bytes, at: int, end: int, ints: list[int]) -> None:
    for tag, start, stop in _fields(data, at, end):
        if tag in (_FIRST, _ONE_VARINT):
            place = start
            while place < stop:
                value, place = _varint(data, place, stop, 10)
                value &= (1 << 64) - 1
                ints.append(value - (1 << 64) if value >> 63 else value)


# ---- the wire format ----


class _IllegalError(Exception):
    """These bytes are no such message."""


# Wire types.
_VARINT, _FIXED64, _DELIMITED, _GROUP, _END_GROUP, _FIXED32 = range(6)
_DEEPEST_GROUP = 100


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag of each field of a message, and where its content starts and ends."""
    while at < end:
        tag, at = _tag(data, at, end)
        if tag & 7 == _GROUP:
            at = _skip_group(data, at, end, tag)
            continue
        start, at = _content(data, at, end, tag)
        yield tag, start, at


def _tag(data: bytes, at: int, end: int) -> tuple[int, int]:
    tag, at = _varint(data, at, end, 5)
    if tag >> 32 or tag >> 3 == 0:
        raise _IllegalError
    return tag, at


def _content(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    kind = tag & 7
    start = at
    if kind == _VARINT:
        _, at = _varint(data, at, end, 10)
    elif kind == _FIXED64:
        at += 8
    elif kind == _FIXED32:
        at += 4
    elif kind == _DELIMITED:
        size, start = _varint(data, at, end, 5)
        at = start + size
    else:
        raise _IllegalError
    if at > end:
        raise _IllegalError
    return start, at


def _skip_group(data: bytes, at: int, end: int, tag: int) -> int:
    """Groups are of old; the messages here have none, but may carry some as unknown fields."""
    still_open = [tag >> 3]
    while still_open:
        tag, at = _tag(data, at, end)
        if tag & 7 == _GROUP:
            still_open.append(tag >> 3)
            if len(still_open) > _DEEPEST_GROUP:
                raise _IllegalError
        elif tag & 7 == _END_GROUP:
            if still_open.pop() != tag >> 3:
                raise _IllegalError
        else:
            _, at = _content(data, at, end, tag)
    return at


def _varint(data: bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """A number of ``most`` bytes at most, and where it ends."""
    value = 0
    for shift in range(0, 7 * most, 7):
        if at >= end:
            raise _IllegalError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _IllegalError
