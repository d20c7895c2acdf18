"""Random specs of every kind, and records for them.

A record is first created as values, so that its anomalies are known without parsing it.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, replace
from typing import Any

from tests.support.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    unpacked_floats,
    unpacked_ints,
)

Spec = dict[str, Any]


@dataclass(frozen=True)
class Values:
    """Values of one Feature. A kind of None is a Feature without a list."""

    kind: str | None
    values: list[Any]
    packed: bool = True

    def encode(self) -> bytes:
        if self.kind is None:
            return b""
        if self.kind == "string":
            return bytes_feature(*self.values)
        if self.kind == "float32":
            if self.packed:
                return float_feature(*self.values)
            return delimited(2, unpacked_floats(self.values))
        if self.packed:
            return int_feature(*self.values)
        return delimited(3, unpacked_ints(self.values))


Record = dict[str, Values]


@dataclass(frozen=True)
class SequenceRecord:
    """Values of one SequenceExample: the context, and each step of the lists."""

    context: Record
    lists: dict[str, list[Values]]

    def encode(self) -> bytes:
        lists = []
        for key, steps in self.lists.items():
            lists.append(entry(key, b"".join(delimited(1, step.encode()) for step in steps)))
        context = b"".join(entry(key, values.encode()) for key, values in self.context.items())
        return delimited(1, context) + delimited(2, b"".join(lists))


def encode(record: Record) -> bytes:
    """Encode an Example like TensorFlow's writers, except for unpacked values."""
    return example(*(entry(key, values.encode()) for key, values in record.items()))


# ---- specs ----

DTYPES = ["int64", "float32", "string"]
SHAPES = [[], [], [1], [2], [3], [2, 2], [0], [2, 0]]
STEP_SHAPES = [[], [], [1], [2], [2, 2], [1, 3]]
PARTITIONS = ["RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds"]
IN_EXAMPLES = ["FixedLen", "VarLen", "FixedLenSequence", "Sparse", "Sparse", "Ragged", "Ragged"]
IN_CONTEXT = ["FixedLen", "VarLen", "Ragged"]
IN_LISTS = ["FixedLenSequence", "VarLen", "Ragged"]


def draw_number(rng: random.Random, dtype: str) -> Any:
    if dtype == "string":
        return rng.randbytes(rng.choice([0, 1, 2, 5, 12]))
    if dtype == "float32":
        bits = rng.choice([rng.getrandbits(32) & 0xBFFFFFFF, 0x3F800000, 0x80000000, 0x7F800000])
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    return rng.choice([rng.randint(-3, 3), rng.randint(-300, 300), rng.getrandbits(64) - 2**63])


def to_json(value: Any, dtype: str) -> Any:
    """Convert a value to the form of ``tf_json.py``."""
    if dtype == "float32":
        return struct.pack(">f", value).hex()
    return value.hex() if dtype == "string" else value


def draw_default(rng: random.Random, dtype: str, count: int) -> Any:
    if rng.random() < 0.5:
        return None
    values = [to_json(draw_number(rng, dtype), dtype) for _ in range(count)]
    return values[0] if count == 1 and rng.random() < 0.5 else values


def draw_partitions(rng: random.Random, name: str) -> list[list[Any]]:
    partitions: list[list[Any]] = []
    for level in range(rng.choice([0, 0, 1, 1, 1, 2, 3])):
        if rng.random() < 0.25:
            partitions.append(["UniformRowLength", rng.choice([1, 2, 3])])
        else:
            kind = rng.choice(PARTITIONS)
            partitions.append([kind, f"{name}.{'r' if kind == 'ValueRowIds' else 'p'}{level}"])
    return partitions


def draw_feature(rng: random.Random, name: str, kind: str, in_lists: bool) -> Spec:
    dtype = rng.choice(DTYPES)
    spec: Spec = {"type": kind, "dtype": dtype}
    if kind == "FixedLen":
        shape = rng.choice(SHAPES)
        spec |= {"shape": shape, "default": draw_default(rng, dtype, math.prod(shape))}
    elif kind == "FixedLenSequence":
        default = None if in_lists else draw_default(rng, dtype, 1)
        missing = not in_lists or rng.random() < 0.7
        spec |= {"shape": rng.choice(STEP_SHAPES), "allow_missing": missing, "default": default}
    elif kind == "Sparse":
        axes = rng.choice([1, 1, 2, 3])
        keys, sizes = [f"{name}.i{axis}" for axis in range(axes)], [4, 9, 300][:axes]
        short = axes == 1 and rng.random() < 0.7
        spec |= {
            "value_key": f"{name}.v",
            "index_key": keys[0] if short else keys,
            "size": sizes[0] if short else sizes,
            "already_sorted": rng.random() < 0.3,
        }
    elif kind == "Ragged":
        spec |= {
            "value_key": rng.choice([None, f"{name}.v"]),
            "partitions": draw_partitions(rng, name),
            "row_splits_dtype": rng.choice(["int32", "int64"]),
            "validate": rng.random() < 0.5,
        }
    return spec


def draw_spec(
    rng: random.Random, prefix: str, kinds: list[str], least: int = 1, in_lists: bool = False
) -> Spec:
    """Draw a spec of up to three features, sometimes also of the keys that other features use."""
    spec: Spec = {}
    for number in range(rng.randint(least, 3)):
        name = f"{prefix}{number}"
        feature = draw_feature(rng, name, rng.choice(kinds), in_lists)
        spec[name] = feature
        if feature["type"] == "Sparse" and rng.random() < 0.2:
            spec[f"{name}.i0"] = {"type": "VarLen", "dtype": "int64"}
        elif feature["type"] == "Ragged" and rng.random() < 0.2:
            for _, key in feature["partitions"]:
                if isinstance(key, str):
                    splits = feature["row_splits_dtype"]
                    spec[key] = {"type": "Ragged", "dtype": "int64", "row_splits_dtype": splits}
    return spec


# ---- records ----


def draw_values(rng: random.Random, dtype: str, count: int) -> list[Any]:
    return [draw_number(rng, dtype) for _ in range(count)]


def draw_sparse(rng: random.Random, spec: Spec) -> Record:
    keys, sizes = index_keys(spec)
    count = rng.choice([0, 1, 2, 3, 5, 9])
    ids = [tuple(rng.randrange(size) for size in sizes) for _ in range(count)]
    if rng.random() < 0.5:
        ids = sorted(set(ids))
    record = {key: Values("int64", [row[n] for row in ids]) for n, key in enumerate(keys)}
    record[spec["value_key"]] = Values(spec["dtype"], draw_values(rng, spec["dtype"], len(ids)))
    return record


def index_keys(spec: Spec) -> tuple[list[str], list[int]]:
    """Return the index keys and sizes of a SparseFeature."""
    if isinstance(spec["index_key"], str):
        return [spec["index_key"]], [spec["size"]]
    return spec["index_key"], spec["size"]


def partition_of(kind: str, lengths: list[int]) -> list[int]:
    """Return the stored values of a partition with rows of these lengths."""
    ends = [sum(lengths[: row + 1]) for row in range(len(lengths))]
    return {
        "RowLengths": lengths,
        "RowSplits": [0, *ends],
        "RowLimits": ends,
        "RowStarts": [0, *ends][:-1],
        "ValueRowIds": [row for row, length in enumerate(lengths) for _ in range(length)],
    }[kind]


def draw_ragged(rng: random.Random, name: str, spec: Spec) -> Record:
    record: Record = {}
    count = rng.randint(0, 3)
    for kind, argument in spec["partitions"]:
        if kind == "UniformRowLength":
            count *= argument
            continue
        lengths = [rng.choice([0, 1, 1, 2, 3]) for _ in range(count)]
        if kind == "ValueRowIds" and lengths:
            lengths[-1] = rng.randint(1, 2)  # no row may follow the last value
        record[argument] = Values("int64", partition_of(kind, lengths), rng.random() < 0.7)
        count = sum(lengths)
    values = draw_values(rng, spec["dtype"], count)
    record[spec["value_key"] or name] = Values(spec["dtype"], values, rng.random() < 0.7)
    return record


def draw_parts(rng: random.Random, name: str, spec: Spec, in_lists: bool) -> Record:
    """Draw the stored Features of one feature of a spec, or of one step of a feature list."""
    dtype = spec["dtype"]
    if spec["type"] == "Sparse":
        return draw_sparse(rng, spec)
    if spec["type"] == "Ragged":
        spec = {"value_key": None, "partitions": [], **spec}
        return draw_ragged(rng, name, spec)
    if spec["type"] == "VarLen":
        values = draw_values(rng, dtype, rng.choice([0, 0, 1, 2, 3, 7]))
        return {name: Values(dtype, values, rng.random() < 0.7)}
    rows = 1 if in_lists or spec["type"] == "FixedLen" else rng.randint(0, 3)
    return {name: Values(dtype, draw_values(rng, dtype, rows * math.prod(spec["shape"])))}


def spoil(rng: random.Random, key: str, values: Values) -> Values:
    """Return values with one change."""
    changed = list(values.values)
    change = rng.choice(["kind", "no kind", "empty", "longer", "shorter", *["other"] * 4])
    if change == "kind":
        kind = rng.choice(DTYPES)
        return Values(kind, draw_values(rng, kind, len(changed)))
    if change == "no kind":
        return Values(None, [])
    if change == "empty":
        changed = []
    elif change == "longer":
        changed.append(
            changed[-1] if changed else {"int64": 1, "string": b"1"}.get(str(values.kind), 1.0)
        )
    elif changed and change == "shorter":
        changed.pop()
    elif changed and values.kind == "int64":
        at = rng.choice([0, rng.randrange(len(changed))])
        # TensorFlow creates as many rows as a row id requires, until memory is exhausted.
        large = [] if ".r" in key else [2**32, 2**40]
        changed[at] = rng.choice([changed[at] + 1, changed[at] - 1, -1, 1000, *large])
        changed[at] = max(-(2**63), min(2**63 - 1, changed[at]))
    return replace(values, values=changed, packed=True)


def draw_record(rng: random.Random, spec: Spec) -> Record:
    """Draw an Example that mostly matches a spec."""
    parts: Record = {}
    for name, feature in spec.items():
        if name not in parts:
            parts |= draw_parts(rng, name, feature, in_lists=False)
    items = list(parts.items())
    rng.shuffle(items)
    record: Record = {}
    for key, values in items:
        odd = rng.randrange(60)
        if odd > 1:
            record[key] = values
        elif odd == 1:
            record[key] = spoil(rng, key, values)
    if rng.random() < 0.2:
        record["not asked for"] = Values("string", [b"?"])
    return record


def draw_lists(rng: random.Random, name: str, spec: Spec) -> dict[str, list[Values]]:
    """Draw the stored FeatureLists of one feature of a spec."""
    steps = [draw_parts(rng, name, spec, in_lists=True) for _ in range(rng.randint(0, 3))]
    keys = draw_parts(rng, name, spec, in_lists=True)
    return {key: [step[key] for step in steps] for key in keys}


def draw_sequence_record(rng: random.Random, context: Spec, sequence: Spec) -> SequenceRecord:
    """Draw a SequenceExample that mostly matches a spec."""
    parts: dict[str, list[Values]] = {}
    for name, feature in sequence.items():
        if name not in parts:
            parts |= draw_lists(rng, name, feature)
    lists: dict[str, list[Values]] = {}
    for key, steps in parts.items():
        odd = rng.randrange(80)
        if odd == 0:
            continue
        lists[key] = list(steps)
        if odd == 1 and steps:
            at = rng.randrange(len(steps))
            lists[key][at] = spoil(rng, key, steps[at])
        elif odd == 2 and steps:
            lists[key].pop()
    return SequenceRecord(draw_record(rng, context), lists)


def draw_sequence_specs(rng: random.Random) -> tuple[Spec, Spec]:
    """Draw specs of a context, which may be empty, and of feature lists."""
    context = draw_spec(rng, "c", IN_CONTEXT, least=0)
    return context, draw_spec(rng, "l", IN_LISTS, 0 if context else 1, in_lists=True)
