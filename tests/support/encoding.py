"""Values to encode, and their encoding by protobuf's own serializer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from tests.support.messages import Example, SequenceExample
from tests.support.wire import delimited

INT64 = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
FLOAT32 = st.floats(width=32)
NAMES = st.one_of(
    st.text(max_size=3),
    st.text("ab\0é\U0001f600", max_size=12),
    st.text("cf_0123", max_size=20),
)
LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


class Stored(NamedTuple):
    """Contents of a Feature."""

    kind: str | None
    values: list[Any]


class Case(NamedTuple):
    """A Python value and the contents that must be stored for it."""

    value: Any
    stored: Stored


# ---- the model ----


def fill(feature: Any, stored: Stored) -> None:
    """Fill a protobuf Feature with stored contents."""
    feature.SetInParent()
    if stored.kind is None:
        return
    values = getattr(feature, LISTS[stored.kind])
    values.SetInParent()
    plain = map(int, stored.values) if stored.kind == "int64" else stored.values
    values.value.extend(plain)


def by_bytes(names: Mapping[str, Any]) -> list[str]:
    return sorted(names, key=str.encode)


def features_bytes(features: Mapping[str, Stored]) -> bytes:
    """Serialize a Features message with protobuf, in the order of protobuf's C++ library.

    (Where a name is a prefix of another, protobuf's Python library puts the longer one first.)
    """
    entries = b""
    for name in by_bytes(features):
        message = Example()
        fill(message.features.feature[name], features[name])
        entries += message.features.SerializeToString()
    return entries


def lists_bytes(lists: Mapping[str, list[Stored]]) -> bytes:
    """Serialize a FeatureLists message with protobuf, in the same order."""
    entries = b""
    for name in by_bytes(lists):
        message = SequenceExample()
        steps = message.feature_lists.feature_list[name]
        for stored in lists[name]:
            fill(steps.feature.add(), stored)
        entries += message.feature_lists.SerializeToString()
    return entries


def example_bytes(**features: Stored) -> bytes:
    return delimited(1, features_bytes(features))


def ints(*values: int) -> Stored:
    return Stored("int64", list(values))


def floats(*values: float) -> Stored:
    return Stored("float32", list(values))


def texts(*values: bytes) -> Stored:
    return Stored("string", list(values))


NO_KIND = Stored(None, [])


# ---- values of any type ----


@st.composite
def nested(draw: st.DrawFn, leaves: list[Any]) -> Any:
    """Nest leaves in lists and tuples of one length at each depth, in order."""
    if len(leaves) == 1 and draw(st.booleans()):
        return leaves[0]
    items = leaves
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([n for n in range(1, len(items) + 1) if len(items) % n == 0]))
        kinds = draw(st.lists(st.sampled_from([list, tuple]), min_size=1, max_size=3))
        starts = range(0, len(items), size)
        items = [kinds[i % len(kinds)](items[i : i + size]) for i in starts]
    return tuple(items) if draw(st.booleans()) else items


@st.composite
def plain_cases(draw: st.DrawFn) -> Case:
    """Draw Python scalars and lists."""
    kind = draw(st.sampled_from(["int64", "float32", "string"]))
    leaf: st.SearchStrategy[Any]
    if kind == "int64":
        leaf = st.one_of(INT64, st.booleans())
    elif kind == "float32":
        leaf = st.one_of(FLOAT32, st.floats(-1e38, 1e38), st.integers(-(2**70), 2**70))
    else:
        leaf = st.one_of(st.binary(max_size=20), st.text(max_size=20))
    leaves = draw(st.lists(leaf, min_size=1, max_size=12))
    if kind == "float32" and not any(isinstance(value, float) for value in leaves):
        leaves[draw(st.integers(0, len(leaves) - 1))] = 0.5
    stored = [value.encode() if isinstance(value, str) else value for value in leaves]
    return Case(draw(nested(leaves)), Stored(kind, stored))


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "longdouble"]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Draw arrays of any dtype, shape and layout."""
    dtype = draw(st.sampled_from([*INTEGERS, *FLOATS, "bool", "S5", "U5", "object"]))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = math.prod(shape)
    leaf: st.SearchStrategy[Any]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        leaf = st.integers(int(info.min), min(int(info.max), 2**63 - 1))
    elif dtype in FLOATS:
        leaf = st.floats(width=16) if dtype == "float16" else FLOAT32
    elif dtype == "bool":
        leaf = st.booleans()
    else:
        characters = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
        leaf = st.binary(max_size=5) if dtype == "S5" else characters
    flat = np.array(draw(st.lists(leaf, min_size=count, max_size=count)), dtype)
    made = flat.reshape(shape)
    layout = draw(st.sampled_from(["plain", "swapped", "fortran", "strided", "unaligned", "view"]))
    if layout == "swapped" and dtype != "object":
        made = made.astype(made.dtype.newbyteorder(">"))
    elif layout == "fortran":
        made = np.asfortranarray(made)
    elif layout == "strided" and made.ndim:
        made = np.repeat(made, 2, axis=-1)[..., ::2]
    elif layout == "unaligned" and dtype != "object":
        raw = np.empty(made.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(made.tobytes(), np.uint8)
        made = raw[1:].view(made.dtype).reshape(shape)
    elif layout == "view":
        made = made.view(_Subclass)
    return made


class _Subclass(np.ndarray[Any, Any]):
    pass


def stored_of(made: np.ndarray[Any, Any]) -> Stored:
    """Return the contents that must be stored for an array."""
    values = made.ravel().tolist()
    kind = made.dtype.kind
    if kind in "biu":
        return Stored("int64", values)
    if kind == "f":
        return Stored("float32", [float(value) for value in values])
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return Stored("string", encoded)


@st.composite
def array_cases(draw: st.DrawFn) -> Case:
    """Draw arrays, NumPy scalars and Tensors."""
    made = draw(arrays().filter(lambda made: made.size or made.dtype != object))
    stored = stored_of(made)
    form = draw(st.sampled_from(["array", "scalar", "tensor", "list"]))
    if form == "scalar" and made.size == 1:
        return Case(made.reshape(-1)[0], stored)
    if form == "tensor" and made.dtype.kind in "biuf" and made.dtype.itemsize <= 8:
        plain = np.array(made, made.dtype.newbyteorder("="), order="C")
        tensor = torch.from_numpy(plain)
        return Case(tensor.requires_grad_(tensor.is_floating_point()), stored)
    return Case(list(made) if form == "list" and made.size and made.ndim else made, stored)


CASES = st.one_of(plain_cases(), array_cases(), st.just(Case(None, NO_KIND)))
EXAMPLES = st.dictionaries(NAMES, CASES, max_size=8)


def stored_part(example: Mapping[str, Case]) -> dict[str, Stored]:
    return {name: case.stored for name, case in example.items()}


def given_part(example: Mapping[str, Case]) -> dict[str, Any]:
    return {name: case.value for name, case in example.items()}
