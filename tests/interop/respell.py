"""Equivalent encodings of the same values, damaged encodings, and a reference parser.

The reference is protobuf's own parser, applied to one layer at a time: keys are compared as bytes,
and features that are not requested are not parsed.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.interop.generate import Record, SequenceRecord, Spec, Values
from tests.support import wire
from tests.support.messages import Feature, FeatureList
from tests.support.spellings import KINDS, LooseSequenceExample, entries_of, kind_and_values
from tests.support.wire import delimited, tag, varint

NUMBERS = {"string": 1, "float32": 2, "int64": 3}


# ---- equivalent encodings ----


def size(rng: random.Random) -> int:
    """Draw the size of a tag or a length, mostly the shortest."""
    return rng.choice([0, 0, 0, 0, 0, 2, 5])


def field(rng: random.Random, number: int, payload: bytes) -> bytes:
    return delimited(number, payload, size(rng), size(rng))


def unknown(rng: random.Random, known: Sequence[int], depth: int = 0) -> bytes:
    """Draw a field that a message does not have."""
    number = rng.choice([n for n in (2, 3, 4, 15, 16, 99, 2**29 - 1) if n not in known])
    kind = rng.choice(["varint", "fixed64", "fixed32", "delimited", "group"])
    if kind == "varint":
        return tag(number, wire.VARINT, size(rng)) + varint(rng.getrandbits(64))
    if kind == "fixed64":
        return tag(number, wire.FIXED64, size(rng)) + rng.randbytes(8)
    if kind == "fixed32":
        return tag(number, wire.FIXED32, size(rng)) + rng.randbytes(4)
    if kind == "delimited" or depth > 2:
        return field(rng, number, rng.randbytes(rng.randint(0, 5)))
    inside = b"".join(unknown(rng, (), depth + 1) for _ in range(rng.randint(0, 2)))
    return tag(number, wire.GROUP, size(rng)) + inside + tag(number, wire.END_GROUP)


def mixed(rng: random.Random, parts: Sequence[bytes], known: Sequence[int]) -> bytes:
    """Join parts in order, sometimes with an unknown field before or after a part."""
    out = b""
    for part in parts:
        if rng.random() < 0.1:
            out += unknown(rng, known)
        out += part
    if rng.random() < 0.1:
        out += unknown(rng, known)
    return out


def cut(rng: random.Random, values: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Split values into up to ``most`` parts, some of them empty."""
    cuts = sorted(rng.randint(0, len(values)) for _ in range(rng.randint(0, most - 1)))
    bounds = [0, *cuts, len(values)]
    return [values[begin:end] for begin, end in itertools.pairwise(bounds)]


def spell_list(rng: random.Random, kind: str, values: Sequence[Any]) -> bytes:
    """Encode a list as any number of chunks, packed or not."""
    chunks: list[bytes] = []
    for part in cut(rng, values, 3):
        packed = rng.random() < 0.5
        if kind == "string":
            chunks += [field(rng, 1, value) for value in part]
        elif kind == "float32":
            spelled = [struct.pack("<f", value) for value in part]
            if packed:
                chunks.append(field(rng, 1, b"".join(spelled)))
            else:
                chunks += [tag(1, wire.FIXED32, size(rng)) + value for value in spelled]
        else:
            spelled = [varint(value, rng.choice([0, 0, 0, 3, 10])) for value in part]
            if packed:
                chunks.append(field(rng, 1, b"".join(spelled)))
            else:
                chunks += [tag(1, wire.VARINT, size(rng)) + value for value in spelled]
    return mixed(rng, chunks, (1,))


def spell_feature(rng: random.Random, values: Values) -> bytes:
    """Encode a Feature, sometimes with a list of another kind first, which does not count."""
    if values.kind is None:
        return mixed(rng, [], (1, 2, 3))
    parts: list[bytes] = []
    if rng.random() < 0.1:
        other = rng.choice([kind for kind in NUMBERS if kind != values.kind])
        parts.append(field(rng, NUMBERS[other], b""))
    for part in cut(rng, values.values, 2):
        parts.append(field(rng, NUMBERS[values.kind], spell_list(rng, values.kind, part)))
    return mixed(rng, parts, (1, 2, 3))


def spell_steps(rng: random.Random, steps: list[Values]) -> bytes:
    """Encode a FeatureList."""
    return mixed(rng, [field(rng, 1, spell_feature(rng, step)) for step in steps], (1,))


def spell_entry(rng: random.Random, key: str, value: bytes, parts: Sequence[bytes]) -> bytes:
    """Encode a map entry: key and value in any order, the value sometimes in parts."""
    fields = [field(rng, 2, part) for part in (parts if rng.random() < 0.2 else [value])]
    fields.insert(rng.choice([0, 0, len(fields)]), field(rng, 1, key.encode()))
    return field(rng, 1, mixed(rng, fields, (1, 2)))


def spell_map(rng: random.Random, values: dict[str, Any], spell: Callable[..., bytes]) -> bytes:
    """Encode a map of Features or FeatureLists. The last entry of a duplicate key counts."""
    entries: list[bytes] = []
    for key, value in values.items():
        if rng.random() < 0.1:
            other = rng.choice(list(values.values()))
            entries.append(spell_entry(rng, key, spell(rng, other), [b""]))
        spelled = spell(rng, value)
        entries.append(spell_entry(rng, key, spelled, [spelled, b""]))
    return mixed(rng, entries, (1,))


def spell_parts(
    rng: random.Random, number: int, values: dict[str, Any], spell: Callable[..., bytes]
) -> list[bytes]:
    """Encode the fields of a map, which may be split into several parts of the message."""
    items = list(values.items())
    parts = cut(rng, items, 2) if rng.random() < 0.3 else [items]
    return [field(rng, number, spell_map(rng, dict(part), spell)) for part in parts]


def respell(rng: random.Random, record: Record) -> bytes:
    """Encode an Example."""
    return mixed(rng, spell_parts(rng, 1, record, spell_feature), (1,))


def respell_sequence(rng: random.Random, record: SequenceRecord) -> bytes:
    """Encode a SequenceExample."""
    parts = spell_parts(rng, 1, record.context, spell_feature)
    lists = spell_parts(rng, 2, record.lists, spell_steps)
    return mixed(rng, [*lists, *parts] if rng.random() < 0.2 else [*parts, *lists], (1, 2))


# ---- damage ----


def damage(rng: random.Random, record: bytes) -> bytes:
    """Change, remove or insert some bytes of a record."""
    damaged = bytearray(record)
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(damaged))
        change = rng.choice(["set", "flip", "cut", "add", "length"])
        if change == "add" or at == len(damaged):
            damaged[at:at] = rng.randbytes(rng.randint(1, 3))
        elif change == "set":
            damaged[at] = rng.choice([0, 1, 2, 5, 8, 10, 13, 18, 26, 127, 128, 255])
        elif change == "flip":
            damaged[at] ^= 1 << rng.randint(0, 7)
        elif change == "length":
            damaged[at] = (damaged[at] + rng.choice([-2, -1, 1, 2])) % 256
        else:
            del damaged[at : at + rng.choice([1, 2, 1000])]
    return bytes(damaged)


# ---- reference parser ----


def keys_of(spec: Spec) -> list[str]:
    """Return the stored features that a spec reads."""
    keys: list[str] = []
    for name, feature in spec.items():
        keys.append(feature.get("value_key") or name)
        index_key = feature.get("index_key", [])
        keys += [index_key] if isinstance(index_key, str) else index_key
        keys += [key for _, key in feature.get("partitions", []) if isinstance(key, str)]
    return keys


def read_sequence(record: bytes, context: list[str], sequence: list[str]) -> SequenceRecord:
    """Return the values that protobuf reads in a SequenceExample.

    Raises:
        ProtobufDecodeError: The record is invalid.
    """
    message = LooseSequenceExample.FromString(record)
    lists = {
        key: [values_in(step) for step in FeatureList.FromString(value).feature]
        for key, value in entries_of(message.lists, sequence)
    }
    found = {
        key: values_in(Feature.FromString(value))
        for key, value in entries_of(message.context, context)
    }
    return SequenceRecord(found, lists)


def values_in(feature: Any) -> Values:
    """Return the values of a protobuf Feature."""
    kind, values = kind_and_values(feature)
    return Values(None if kind is None else KINDS[kind], values)
