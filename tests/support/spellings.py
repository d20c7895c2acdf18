"""Examples in every encoding that protobuf allows, in some invalid ones, and their meaning.

The model is protobuf itself: its own classes, and a looser description of the same bytes where this
library differs (keys that are not UTF-8, features that are not requested).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.support import wire
from tests.support.messages import Feature, make_messages
from tests.support.wire import (
    delimited,
    tag,
    unpacked_floats,
    varint,
)

KINDS: dict[str, Any] = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}


# ---- the loose model: unmerged entries, unparsed Features ----


# Maps of Features, or of FeatureLists, as lists of entries.
_LOOSE = make_messages(
    "torchrec_io_test_loose",
    {
        "Entry": {"key 1": "bytes", "value 2": "repeated bytes"},
        "Map": {"entries 1": "repeated Entry"},
        "Example": {"features 1": "repeated Map"},
        "SequenceExample": {"context 1": "repeated Map", "lists 2": "repeated Map"},
    },
)
LooseExample: Any = _LOOSE["Example"]
LooseSequenceExample: Any = _LOOSE["SequenceExample"]


def entries_of(maps: Any, keys: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the key and the value of each entry of some keys, of which the last one counts.

    Parts of a message are merged as if they were concatenated.
    """
    for each in maps:
        for item in each.entries:
            for key in keys:
                if item.key == key.encode():
                    yield key, b"".join(item.value)


def read_loosely(record: bytes, keys: list[str]) -> dict[str, tuple[str | None, list[Any]]]:
    """Return kind and values of some features. The last entry of a key counts; all must be valid.

    Raises:
        ProtobufDecodeError: The record is invalid.
    """
    entries = entries_of(LooseExample.FromString(record).features, keys)
    return {key: kind_and_values(Feature.FromString(value)) for key, value in entries}


def kind_and_values(feature: Any) -> tuple[str | None, list[Any]]:
    kind = feature.WhichOneof("kind")
    return kind, [] if kind is None else list(getattr(feature, kind).value)


# ---- every valid encoding ----

sizes = st.sampled_from([0, 0, 0, 0, 2, 5])  # mostly the shortest form; lengths may have 5 bytes
fields = st.sampled_from([2, 3, 4, 15, 16, 99, 2**29 - 1])


@st.composite
def unknown_field(draw: st.DrawFn, known: tuple[int, ...] = (1,), depth: int = 0) -> bytes:
    """Draw a field that a message does not have."""
    number = draw(fields.filter(lambda n: n not in known))
    size = draw(sizes)
    kind = draw(st.sampled_from([wire.VARINT, wire.FIXED64, wire.DELIMITED, wire.FIXED32, "group"]))
    if kind == wire.VARINT:
        return tag(number, wire.VARINT, size) + varint(draw(st.integers(0, 2**64 - 1)))
    if kind == wire.FIXED64:
        return tag(number, wire.FIXED64, size) + draw(st.binary(min_size=8, max_size=8))
    if kind == wire.FIXED32:
        return tag(number, wire.FIXED32, size) + draw(st.binary(min_size=4, max_size=4))
    if kind == wire.DELIMITED or depth > 2:
        return delimited(number, draw(st.binary(max_size=5)), size, draw(sizes))
    inside = st.lists(unknown_field((), depth + 1), max_size=2)
    return tag(number, wire.GROUP, size) + b"".join(draw(inside)) + tag(number, wire.END_GROUP)


@st.composite
def mixed_with(draw: st.DrawFn, parts: list[bytes], unknown: st.SearchStrategy[bytes]) -> bytes:
    """Draw parts in order, sometimes with an unknown field before or after a part."""
    out = b""
    for part in parts:
        if draw(st.integers(0, 7)) == 0:
            out += draw(unknown)
        out += part
    if draw(st.integers(0, 7)) == 0:
        out += draw(unknown)
    return out


int_values = st.one_of(
    st.integers(0, 300),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, -1, 2**63 - 1, -(2**63), 127, 128]),
)


@st.composite
def int_list(draw: st.DrawFn) -> bytes:
    chunks: list[bytes] = []
    for values in draw(st.lists(st.lists(int_values, max_size=12), max_size=3)):
        overlong = draw(st.sampled_from([0, 0, 0, 3, 10]))
        spelled = [varint(value, overlong) for value in values]
        if draw(st.booleans()):
            chunks.append(delimited(1, b"".join(spelled), draw(sizes), draw(sizes)))
        else:
            chunks.extend(tag(1, wire.VARINT, draw(sizes)) + value for value in spelled)
    return draw(mixed_with(chunks, unknown_field()))


@st.composite
def float_list(draw: st.DrawFn) -> bytes:
    chunks: list[bytes] = []
    for values in draw(st.lists(st.lists(st.floats(width=32), max_size=9), max_size=3)):
        if draw(st.booleans()):
            packed = b"".join(struct.pack("<f", value) for value in values)
            chunks.append(delimited(1, packed, draw(sizes), draw(sizes)))
        else:
            chunks.append(unpacked_floats(values))
    return draw(mixed_with(chunks, unknown_field()))


@st.composite
def bytes_list(draw: st.DrawFn) -> bytes:
    values = draw(st.lists(st.binary(max_size=20), max_size=4))
    spelled = [delimited(1, value, draw(sizes), draw(sizes)) for value in values]
    return draw(mixed_with(spelled, unknown_field()))


LISTS = {1: bytes_list(), 2: float_list(), 3: int_list()}


@st.composite
def feature_bytes(draw: st.DrawFn) -> bytes:
    """Draw a Feature with any number of lists and kinds."""
    numbers = draw(st.one_of(st.sampled_from([[], [3]]), st.lists(st.sampled_from([1, 2, 3]))))
    parts = [delimited(n, draw(LISTS[n]), draw(sizes), draw(sizes)) for n in numbers]
    return draw(mixed_with(parts, unknown_field((1, 2, 3))))


KEYS = ["a", "b", "", "é", "longer key"]


ENTRY_FIELDS = st.sampled_from([[1, 2], [1, 2], [1, 2], [2, 1], [1], [2], [], [1, 2, 2, 1]])


@st.composite
def entry_bytes(draw: st.DrawFn, unknown: bool) -> bytes:
    """Draw a map entry. Key and value have any order, and may be missing or duplicated."""
    parts: list[bytes] = []
    for number in draw(ENTRY_FIELDS):
        payload = draw(st.sampled_from(KEYS)).encode() if number == 1 else draw(feature_bytes())
        parts.append(delimited(number, payload, draw(sizes), draw(sizes)))
    inside = draw(mixed_with(parts, unknown_field((1, 2)))) if unknown else b"".join(parts)
    return delimited(1, inside, draw(sizes), draw(sizes))


@st.composite
def example_bytes(draw: st.DrawFn, unknown_in_entries: bool = True) -> bytes:
    """Draw an Example whose Features may be split into several parts."""
    parts: list[bytes] = []
    entry_lists = st.lists(entry_bytes(unknown_in_entries), max_size=4)
    for entries in draw(st.lists(entry_lists, max_size=2)):
        features = draw(mixed_with(entries, unknown_field()))
        parts.append(delimited(1, features, draw(sizes), draw(sizes)))
    return draw(mixed_with(parts, unknown_field()))


# ---- damage ----


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a valid record with some bytes changed, removed or inserted."""
    record = bytearray(draw(example_bytes()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(record)))
        change = draw(st.sampled_from(["set", "flip", "cut", "add"]))
        if change == "add" or at == len(record):
            record[at:at] = draw(st.binary(min_size=1, max_size=3))
        elif change == "set":
            record[at] = draw(st.sampled_from([0, 1, 2, 5, 8, 10, 13, 18, 26, 127, 128, 255]))
        elif change == "flip":
            record[at] ^= 1 << draw(st.integers(0, 7))
        else:
            del record[at : at + draw(st.sampled_from([1, 2, 1000]))]
    return bytes(record)


def has_groups(record: bytes) -> bool:
    """Return whether a record may contain a group with a field number 0."""
    return 0 in record and any(byte & 7 == wire.GROUP for byte in record)
