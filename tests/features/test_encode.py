"""Encoding, against protobuf's own serializer and back through our parser."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import math
import struct
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.features.wire import delimited
from tests.support.messages import Example, SequenceExample

INT64 = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
FLOAT32 = st.floats(width=32)
NAMES = st.one_of(
    st.text(max_size=3),
    st.text("ab\0é\U0001f600", max_size=12),
    st.text("cf_0123", max_size=20),
)
LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


class Stored(NamedTuple):
    """What a Feature holds."""

    kind: str | None
    values: list[Any]


class Case(NamedTuple):
    """A Python value, and what is to be stored for it."""

    value: Any
    stored: Stored


# ---- the model ----


def fill(feature: Any, stored: Stored) -> None:
    """Makes a protobuf Feature of that."""
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
    """A Features message by protobuf, entry by entry, in the order that its C++ library has.

    (Of names that start alike, protobuf's compiled Python library puts the longer one first.)
    """
    entries = b""
    for name in by_bytes(features):
        message = Example()
        fill(message.features.feature[name], features[name])
        entries += message.features.SerializeToString()
    return entries


def lists_bytes(lists: Mapping[str, list[Stored]]) -> bytes:
    """A FeatureLists message, likewise."""
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
    """The leaves in order, in lists and tuples inside each other, with empty ones among them."""
    if len(leaves) == 1 and draw(st.booleans()):
        return leaves[0]
    items: list[Any] = []
    at = 0
    while at < len(leaves):
        size = draw(st.integers(1, len(leaves) - at))
        if size == 1 or size == len(leaves):
            items.extend(leaves[at : at + size])
        else:
            items.append(draw(nested(leaves[at : at + size])))
        at += size
        if draw(st.integers(0, 9)) == 0:
            items.append([])
    return tuple(items) if draw(st.booleans()) else items


@st.composite
def plain_cases(draw: st.DrawFn) -> Case:
    """Python's own scalars and lists."""
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
    """Arrays of any dtype, shape and layout."""
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
    """What is to be stored for an array."""
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
    """Arrays, NumPy's scalars and Tensors."""
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


# ---- Examples ----


@given(EXAMPLES)
def test_the_bytes_are_protobufs(example: dict[str, Case]) -> None:
    encoded = tio.encode_example(given_part(example))
    assert encoded == delimited(1, features_bytes(stored_part(example)))
    message = Example.FromString(encoded)
    assert set(message.features.feature) == set(example)


FOUR_BYTES = st.one_of(
    st.text("ab\0~\x7f", min_size=4, max_size=4),
    st.text("é\x80߿", min_size=2, max_size=2),
    st.sampled_from(["\U00010000", "\U0001f600", "\U0010ffff"]),
)


@given(st.dictionaries(FOUR_BYTES, CASES, max_size=10))
def test_the_order_is_protobufs(example: dict[str, Case]) -> None:
    # Where no name starts another one: there all of protobuf's libraries agree.
    message = Example()
    message.features.SetInParent()
    for name, stored in stored_part(example).items():
        fill(message.features.feature[name], stored)
    expected = message.SerializeToString(deterministic=True)
    assert tio.encode_example(given_part(example)) == expected


@given(st.lists(st.dictionaries(st.sampled_from("abcdé"), plain_cases()), max_size=5))
def test_what_is_written_is_read(examples: list[dict[str, Case]]) -> None:
    encoded = tio.encode_examples(map(given_part, examples))
    assert encoded == [tio.encode_example(given_part(example)) for example in examples]
    for example, record in zip(examples, encoded, strict=True):
        for name, (kind, values) in stored_part(example).items():
            assert kind is not None
            column = tio.parse_examples([record], {name: tio.VarLenFeature(kind)})[name]
            [row] = column.tolist()
            if kind == "float32":
                assert struct.pack(f"<{len(row)}f", *row) == struct.pack(f"<{len(row)}f", *values)
            else:
                assert row == values


@given(st.lists(NAMES, unique=True, max_size=30), st.randoms())
def test_names_are_sorted_by_their_bytes(names: list[str], random: Any) -> None:
    shuffled = random.sample(names, len(names))
    encoded = tio.encode_example(dict.fromkeys(names, 7))
    assert encoded == tio.encode_example(dict.fromkeys(shuffled, 7))
    assert encoded == delimited(1, features_bytes(dict.fromkeys(names, ints(7))))


def test_a_name_that_starts_another_comes_first() -> None:
    encoded = tio.encode_example(dict.fromkeys(["c1", "c10", "c", "c1\0"], 1))
    places = [encoded.index(delimited(1, name)) for name in (b"c", b"c1", b"c1\0", b"c10")]
    assert places == sorted(places)


def test_an_empty_example_has_an_empty_map() -> None:
    message = Example()
    message.features.SetInParent()
    assert tio.encode_example({}) == message.SerializeToString() == b"\x0a\x00"
    assert tio.encode_examples([{}, {}]) == [b"\x0a\x00"] * 2
    assert tio.encode_examples([]) == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, ints(1)),
        ([True, 2], ints(1, 2)),
        (bytearray(b"ab"), texts(b"ab")),
        (memoryview(b"abcd")[::2], texts(b"ac")),
        ([b"a", "é", bytearray(b"c"), memoryview(b"d")], texts(b"a", "é".encode(), b"c", b"d")),
        (np.str_("a"), texts(b"a")),
        (np.bytes_(b"a"), texts(b"a")),
        ([np.float32(0.5), 2], floats(0.5, 2)),
        ([np.int64(1), True, np.uint8(3)], ints(1, 1, 3)),
        ([np.bool_(1), 0.5], floats(1, 0.5)),
        ([[1], (2.5,), [[3]]], floats(1, 2.5, 3)),
        ([2**70, 0.5], floats(2**70, 0.5)),
        ([np.arange(2), [3.5], torch.ones(1)], floats(0, 1, 3.5, 1)),
        ([np.empty(0, "float32"), 1], ints(1)),
        ([1, np.empty(0, "float32")], ints(1)),
        (torch.tensor(3), ints(3)),
        (torch.tensor([1.5, -2.5], dtype=torch.bfloat16), floats(1.5, -2.5)),
        (torch.tensor([[1, 2], [3, 4]]).T, ints(1, 3, 2, 4)),
        (torch.ones(1).expand(3), floats(1, 1, 1)),
        (torch.tensor([1 + 2j]).conj().imag, floats(-2)),
        (tio.BytesArray.from_list([b"a", b"", b"bc"]), texts(b"a", b"", b"bc")),
        (tio.BytesArray.from_list([]), texts()),
        (tio.Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 3])), ints(1, 2, 3)),
        (np.array([b"a", "b", [b"c"]], object), texts(b"a", b"b", b"c")),
        (np.array(["a", "bc"], np.dtypes.StringDType()), texts(b"a", b"bc"))
        if hasattr(np.dtypes, "StringDType")
        else (None, NO_KIND),
        (range(3), ints(0, 1, 2)),
        (collections.UserList([1, 2]), ints(1, 2)),
        (np.ma.array([1, 2], mask=[False, False]), ints(1, 2)),
        (np.array([0, 1, 2, 255], np.uint8).view(bool), ints(0, 1, 1, 1)),
        (math.inf, floats(math.inf)),
        (-math.inf, floats(-math.inf)),
        (np.longdouble("inf"), floats(math.inf)),
        (1e-60, floats(0)),
        (float(2**128 - 2**103 - 2**75), floats(3.4028234663852886e38)),
        (None, NO_KIND),
    ],
)
def test_values(value: Any, stored: Stored) -> None:
    assert tio.encode_example({"x": value}) == example_bytes(x=stored)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16])
def test_values_on_a_device(dtype: torch.dtype) -> None:
    for values in (torch.arange(6, dtype=dtype).reshape(2, 3).T, torch.tensor(7, dtype=dtype)):
        encoded = tio.encode_example({"x": values.cuda()})
        assert encoded == tio.encode_example({"x": values.tolist()})


class _Colour(enum.IntEnum):
    RED = 3


class _Pair(NamedTuple):
    first: int
    second: int


class _Shouting(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise AssertionError("names are read as plain str")

    def encode(self, *_: Any) -> bytes:
        raise AssertionError("values are read as plain str")


class _Scalar(np.float32):
    pass


def test_subclasses_of_other_types() -> None:
    assert tio.encode_example({"x": _Scalar(7)}) == example_bytes(x=floats(7))
    assert tio.encode_example({"x": [_Scalar(7), 1]}) == example_bytes(x=floats(7, 1))


def test_subclasses_of_pythons_types() -> None:
    assert tio.encode_example({"x": _Colour.RED}) == example_bytes(x=ints(3))
    assert tio.encode_example({"x": _Pair(1, 2)}) == example_bytes(x=ints(1, 2))
    assert tio.encode_example({"x": _Shouting("é")}) == example_bytes(x=texts("é".encode()))
    assert tio.encode_example({np.str_("x"): 1}, {"x": "float32"}) == example_bytes(x=floats(1))


def test_any_mapping() -> None:
    for mapping in (
        types.MappingProxyType({"x": 1}),
        collections.OrderedDict(x=1),
        collections.ChainMap({"x": 1}),
    ):
        assert tio.encode_example(mapping) == example_bytes(x=ints(1))
        assert tio.encode_examples(iter([mapping])) == [example_bytes(x=ints(1))]


def test_nan_stays_nan() -> None:
    # Whose bits are kept in what is float32 already.
    bits = np.array([0x7F800001, 0xFFC12345, 0x7FC00000], "<u4").view("<f4")
    assert bits.tobytes() in tio.encode_example({"x": bits})
    for value in (
        math.nan,
        -math.nan,
        np.float64("nan"),
        struct.unpack("<d", b"\1" * 6 + b"\xf0\x7f")[0],
    ):
        [row] = tio.parse_examples(
            [tio.encode_example({"x": value})], {"x": tio.VarLenFeature("float")}
        )["x"].tolist()
        assert [math.isnan(read) for read in row] == [True]


def test_names_may_be_bytes() -> None:
    features: Any = {"é".encode(): 1}
    assert tio.encode_example(features) == example_bytes(é=ints(1))
    assert tio.encode_example(features, {"é": "float32"}) == example_bytes(é=floats(1))
    kinds: Any = {b"x": "float32"}
    assert tio.encode_example({"x": 1}, kinds) == example_bytes(x=floats(1))


def test_another_thread_may_write_while_a_message_is_made() -> None:
    # What is measured is what is written, whatever becomes of the array meanwhile.
    shared = np.zeros(20_000, np.int64)
    stop = threading.Event()

    def scribble() -> None:
        while not stop.is_set():
            shared[:] = -1
            shared[:] = 0

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(50):
            message = Example.FromString(tio.encode_example({"x": shared}))
            assert len(message.features.feature["x"].int64_list.value) == 20_000
    finally:
        stop.set()
        thread.join()


# ---- kinds ----


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("int64", [], ints()),
        ("int32", [], ints()),
        ("bool", True, ints(1)),
        ("uint8", [1, 2], ints(1, 2)),
        ("float32", [], floats()),
        ("float64", 1, floats(1)),
        ("half", [[1], [2, 3.5]], floats(1, 2, 3.5)),
        ("bfloat16", np.arange(2), floats(0, 1)),
        (float, np.uint8(7), floats(7)),
        (int, [], ints()),
        (str, [], texts()),
        (bytes, "a", texts(b"a")),
        ("string", [[], ()], texts()),
        (torch.int32, [], ints()),
        (torch.float16, torch.arange(2), floats(0, 1)),
        (np.float64, [], floats()),
        (np.dtype("S7"), [], texts()),
        ("int64", np.array([]), ints()),
        ("string", torch.empty(0, 3), texts()),
        ("float32", np.empty(0, "U1"), floats()),
        ("int64", None, NO_KIND),
    ],
)
def test_named_kinds(dtype: Any, value: Any, stored: Stored) -> None:
    assert tio.encode_example({"x": value}, {"x": dtype, "y": "string"}) == example_bytes(x=stored)


def test_a_schema_names_kinds() -> None:
    schema = tio.Schema(
        {
            "image": tio.ImageFeature(),
            "floats": tio.FixedLenFeature([2], "float64"),
            "ints": tio.VarLenFeature("uint8"),
            "raw": tio.RawFeature("int32", shape_key="shape"),
            "texts": tio.VarLenFeature("string"),
        }
    )
    names = ["image", "floats", "ints", "raw", "shape", "texts"]
    kinds = [texts(), floats(), ints(), texts(), ints(), texts()]
    expected = example_bytes(**dict(zip(names, kinds, strict=True)))
    for given_kinds in (schema, dict(schema)):
        assert tio.encode_example({name: [] for name in names}, given_kinds) == expected
    assert tio.encode_example({"other": 1}, schema) == example_bytes(other=ints(1))


def test_what_names_no_kinds() -> None:
    no_kinds: Any
    for no_kinds in (["x"], "int64", {1: "int64"}):
        with pytest.raises(TypeError, match=r"kinds must map names|a name in kinds must be a str"):
            tio.encode_example({"x": 1}, no_kinds)
    assert tio.encode_example({"x": 1}, {np.str_("x"): "float32"}) == example_bytes(x=floats(1))


def test_no_such_dtype() -> None:
    with pytest.raises(tio.SchemaError, match="dtype must be one of"):
        tio.encode_example({}, {"x": "complex64"})
    unhashable: Any = {"x": []}
    with pytest.raises(tio.SchemaError, match="dtype must be one of"):
        tio.encode_example({}, unhashable)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "bool", "uint64", "U3"])
def test_empty_arrays_have_a_kind(dtype: str) -> None:
    for shape in ((0,), (2, 0)):
        made = np.empty(shape, dtype)
        assert tio.encode_example({"x": made}) == example_bytes(x=stored_of(made))
        assert tio.encode_example({"x": [made]}) == example_bytes(x=stored_of(made))
        if dtype != "U3":
            tensor = torch.from_numpy(made)
            assert tio.encode_example({"x": tensor}) == example_bytes(x=stored_of(made))


# ---- SequenceExamples ----


class Steps(NamedTuple):
    """A value of a sequence feature, and what is to be stored for each step."""

    value: Any
    stored: list[Stored]


@st.composite
def list_steps(draw: st.DrawFn) -> Steps:
    """Lists of steps of any form, all of one kind."""
    kind = draw(st.sampled_from(["int64", "float32", "string"]))
    steps: list[Any] = []
    stored: list[Stored] = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.integers(0, 5)) == 0:
            steps.append(None)
            stored.append(NO_KIND)
            continue
        case = draw(
            st.one_of(plain_cases(), array_cases()).filter(
                lambda case: case.stored.kind == kind and len(case.stored.values) > 0
            )
        )
        steps.append(case.value)
        stored.append(case.stored)
    if any(step.kind for step in stored) and draw(st.booleans()):
        steps.append([])
        stored.append(Stored(kind, []))
    return Steps(tuple(steps) if draw(st.booleans()) else steps, stored)


@st.composite
def array_steps(draw: st.DrawFn) -> Steps:
    """Arrays and Tensors whose rows are steps."""
    made = draw(arrays().filter(lambda made: made.ndim > 0 and (made.size or made.dtype != object)))
    stored = [stored_of(np.asarray(row, made.dtype)) for row in made]
    if draw(st.booleans()) and made.dtype.kind in "biuf" and made.dtype.itemsize <= 8:
        plain = np.array(made, made.dtype.newbyteorder("="), order="C")
        return Steps(torch.from_numpy(plain), stored)
    return Steps(made, stored)


SEQUENCES = st.dictionaries(NAMES, st.one_of(list_steps(), array_steps()), max_size=5)


@given(st.none() | EXAMPLES, st.none() | SEQUENCES)
def test_sequence_bytes_are_protobufs(
    context: dict[str, Case] | None, sequence: dict[str, Steps] | None
) -> None:
    expected = b""
    if context is not None:
        expected += delimited(1, features_bytes(stored_part(context)))
    if sequence is not None:
        stored = {name: steps.stored for name, steps in sequence.items()}
        expected += delimited(2, lists_bytes(stored))
    given_context = None if context is None else given_part(context)
    given_sequence = (
        None if sequence is None else {name: steps.value for name, steps in sequence.items()}
    )
    encoded = tio.encode_sequence_example(given_context, given_sequence)
    assert encoded == expected
    pairs = [(given_context, given_sequence)] * 2
    assert tio.encode_sequence_examples(iter(pairs)) == [expected] * 2
    message = SequenceExample.FromString(encoded)
    assert set(message.feature_lists.feature_list) == set(sequence or ())


def sequence_bytes(*steps: Stored) -> bytes:
    return delimited(2, lists_bytes({"x": list(steps)}))


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        ([], []),
        ((), []),
        (np.empty((0, 3), "float32"), []),
        (tio.BytesArray.from_list([]), []),
        ([1, 2], [ints(1), ints(2)]),
        ([1, 2.5], [floats(1), floats(2.5)]),
        ([[1], [], 2.5], [floats(1), floats(), floats(2.5)]),
        ([[1, [2]], np.array([[3.5]])], [floats(1, 2), floats(3.5)]),
        (["a", b"b"], [texts(b"a"), texts(b"b")]),
        ([None, None], [NO_KIND, NO_KIND]),
        ([None, 1], [NO_KIND, ints(1)]),
        ([1, None], [ints(1), NO_KIND]),
        ([np.int8(1), None, torch.tensor([2])], [ints(1), NO_KIND, ints(2)]),
        ([np.empty(0, "float32"), []], [floats(), floats()]),
        ([[], np.empty(0, "int64"), None], [ints(), ints(), NO_KIND]),
        (np.arange(4).reshape(2, 1, 2), [ints(0, 1), ints(2, 3)]),
        (np.empty((2, 0), "U1"), [texts(), texts()]),
        (np.array([None, 1, [2, 3]], object), [NO_KIND, ints(1), ints(2, 3)]),
        (torch.tensor([1.5, 2.5], dtype=torch.bfloat16), [floats(1.5), floats(2.5)]),
        (range(2), [ints(0), ints(1)]),
        (tio.BytesArray.from_list([b"a", b"b"]), [texts(b"a"), texts(b"b")]),
        (
            tio.BytesArray(torch.tensor([97, 98]).byte(), torch.tensor([0, 1, 2]), (1, 2)),
            [texts(b"a", b"b")],
        ),
        (
            tio.Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 1, 3])),
            [ints(1), ints(), ints(2, 3)],
        ),
        (
            tio.Ragged(tio.BytesArray.from_list([b"a"]), torch.tensor([0, 0, 1])),
            [texts(), texts(b"a")],
        ),
    ],
)
def test_steps(value: Any, steps: list[Stored]) -> None:
    assert tio.encode_sequence_example(None, {"x": value}) == sequence_bytes(*steps)


def test_steps_of_named_kinds() -> None:
    def encode(value: Any, dtype: str) -> bytes:
        return tio.encode_sequence_example(None, {"x": value}, {"x": dtype})

    assert encode([[], None, []], "string") == sequence_bytes(texts(), NO_KIND, texts())
    assert encode([1, [2]], "float64") == sequence_bytes(floats(1), floats(2))
    assert encode([], "int64") == sequence_bytes()
    with pytest.raises(TypeError, match=r"1\.5 cannot be stored as int64"):
        encode([1, [1.5]], "int64")


def test_parts_that_are_not_set_are_not_written() -> None:
    assert tio.encode_sequence_example(None, None) == b""
    assert tio.encode_sequence_example({}, None) == b"\x0a\x00"
    assert tio.encode_sequence_example(None, {}) == b"\x12\x00"
    assert tio.encode_sequence_example({}, {}) == b"\x0a\x00\x12\x00"
    context = {"x": 1, "y": [b"a"]}
    assert tio.encode_sequence_example(context, None) == tio.encode_example(context)


# ---- refusals ----


def nested_lists(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth - 1):
        value = [value]
    return value


SELF = [1, 2]
SELF.append(SELF)  # type: ignore[arg-type]
ONLY_SELF: list[Any] = []
ONLY_SELF.extend([ONLY_SELF, ONLY_SELF, range(2)])


class _Unreadable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("not \ud800 today")


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (2**63, ValueError, "9223372036854775808 does not fit in int64"),
    (-(2**63) - 1, ValueError, "does not fit in int64"),
    ([1, 2**63], ValueError, "does not fit in int64"),
    (10**6000, ValueError, "this int does not fit in int64"),
    (np.array([0, 2**63], "uint64"), ValueError, "9223372036854775808 does not fit in int64"),
    (np.uint64(2**63), ValueError, "does not fit in int64"),
    (1e39, ValueError, r"1e\+39 does not fit in float32"),
    (float(2**128 - 2**103), ValueError, "does not fit in float32"),
    ([1.5, -(2**128)], ValueError, "does not fit in float32"),
    ([1.5, 10**400], ValueError, r"1000\d+\.\.\. does not fit in float32"),
    (np.array([1e39]), ValueError, "does not fit in float32"),
    (np.array([1e39], ">f8"), ValueError, "does not fit in float32"),
    (torch.tensor([1e39], dtype=torch.float64), ValueError, "does not fit in float32"),
    (np.longdouble("1e4000"), ValueError, "does not fit in float32"),
    ("a\ud800", ValueError, r"'a\\ud800' cannot be encoded as UTF-8"),
    (["a", "\udfff"], ValueError, "cannot be encoded as UTF-8"),
    ([], ValueError, "an empty list has no kind: name one in kinds"),
    ([[], ()], ValueError, "an empty list has no kind: name one in kinds"),
    (np.array([], object), ValueError, "an empty list has no kind"),
    ([1, "a"], TypeError, "both numbers and bytes"),
    ([b"a", 1.5], TypeError, "both numbers and bytes"),
    ([np.arange(2), "a"], TypeError, "both numbers and bytes"),
    ([["a"], [bytearray(b"b"), 1]], TypeError, "both numbers and bytes"),
    (1j, TypeError, "a complex cannot be stored"),
    ([1j], TypeError, "a complex cannot be stored"),
    (np.array([1j]), TypeError, "an array of complex128 cannot be stored"),
    (torch.tensor([1j]), TypeError, "an array of complex64 cannot be stored"),
    ({"a": 1}, TypeError, "a dict cannot be stored"),
    ({1, 2}, TypeError, "a set cannot be stored"),
    (dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), TypeError, "a datetime cannot"),
    (np.datetime64("2020-01-01", "ns"), TypeError, "an array of datetime64"),
    (np.timedelta64(1, "s"), TypeError, "an array of timedelta64"),
    (np.zeros(1, [("a", "i4")]), TypeError, "an array of .* cannot be stored"),
    (decimal.Decimal(1), TypeError, "a Decimal cannot be stored"),
    (iter([1]), TypeError, "a list_iterator cannot be stored"),
    (object(), TypeError, "a object cannot be stored: int, float, str, bytes"),
    ([1, None], TypeError, "a NoneType cannot be stored"),
    (np.array([1, None], object), TypeError, "a NoneType cannot be stored"),
    (np.ma.array([1, 2], mask=[False, True]), ValueError, "masked"),
    (torch.eye(2).to_sparse(), TypeError, "values of this Tensor cannot be taken"),
    (torch.empty(2, device="meta"), TypeError, "values of this Tensor cannot be taken"),
    (nested_lists(65), ValueError, "nested more than 64 deep"),
    ([range(1), nested_lists(64)], ValueError, "nested more than 64 deep"),
    (SELF, ValueError, "nested more than 64 deep"),
    (ONLY_SELF, ValueError, "nested more than 64 deep"),
    (_Unreadable(), ValueError, "the value cannot be read"),
    ([b"x" * (1 << 20)] * 2048, ValueError, "2 GiB"),
]


@pytest.mark.parametrize(
    ("value", "error", "reason"), REFUSED, ids=[reason for _, _, reason in REFUSED]
)
def test_refused_values(value: Any, error: type[Exception], reason: str) -> None:
    ways: list[Callable[[], object]] = [
        lambda: tio.encode_example({"é": value}),
        lambda: tio.encode_sequence_example({"é": value}, {}),
    ]
    if not isinstance(value, list) or value[-1:] != [None]:
        ways.append(lambda: tio.encode_sequence_example({}, {"é": [value]}))
    for way in ways:
        with pytest.raises(error, match=reason) as caught:
            way()
        assert type(caught.value) is error
        assert str(caught.value).endswith(r"(feature '\xe9')") or "2 GiB" in reason
    good = {"é": 1}
    with pytest.raises(error, match=reason) as caught:
        tio.encode_examples([good, good, {"é": value}, good])
    assert str(caught.value).endswith((r"(example 2, feature '\xe9')", "(example 2)"))
    with pytest.raises(error, match=reason) as caught:
        tio.encode_sequence_examples([(good, None), ({"é": value}, None)])
    assert str(caught.value).endswith((r"(example 1, feature '\xe9')", "(example 1)"))


def test_the_greatest_depth() -> None:
    assert tio.encode_example({"x": nested_lists(64)}) == example_bytes(x=ints(1))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 1.0),
        ("int64", [1, 1.5]),
        ("int64", np.array([1.0])),
        ("int64", torch.ones(1)),
        ("int64", "1"),
        ("float32", "1"),
        ("float32", [1.5, b"1"]),
        ("float32", np.array(["1"])),
        ("string", 1),
        ("string", ["a", 1.5]),
        ("string", np.arange(2)),
        ("string", [np.float32(1)]),
    ],
)
def test_values_of_another_kind_than_named(dtype: str, value: Any) -> None:
    stored = "bytes" if dtype == "string" else dtype
    with pytest.raises(TypeError, match=f"cannot be stored as {stored} \\(feature 'x'\\)"):
        tio.encode_example({"x": value}, {"x": dtype})


def test_numbers_that_do_not_fit_a_named_kind() -> None:
    with pytest.raises(ValueError, match="does not fit in int64"):
        tio.encode_example({"x": 2**63}, {"x": "uint64"})
    with pytest.raises(ValueError, match="does not fit in float32"):
        tio.encode_example({"x": 2**128}, {"x": "float64"})


@pytest.mark.parametrize("value", [1, 1.5, "ab", b"ab", bytearray(b"ab"), None, np.int64(1)])
def test_what_has_no_steps(value: Any) -> None:
    with pytest.raises(TypeError, match=r"a sequence feature needs .* steps.*\(feature 'x'\)"):
        tio.encode_sequence_example(None, {"x": value})


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        (np.array(1), TypeError, "needs a list or array of steps"),
        (torch.tensor(1), TypeError, "needs a list or array of steps"),
        ({"a": 1}, TypeError, "needs a list or array of steps, not a dict"),
        ([1, "a"], TypeError, "both numbers and bytes"),
        ([[1], ["a"]], TypeError, "both numbers and bytes"),
        ([[], []], ValueError, "an empty list has no kind"),
        ([[], None], ValueError, "an empty list has no kind"),
        ([[1, None]], TypeError, "a NoneType cannot be stored"),
        ([1, 2**63], ValueError, "does not fit in int64"),
        ([[{}]], TypeError, "a dict cannot be stored"),
        ([nested_lists(64)], ValueError, "nested more than 64 deep"),
    ],
)
def test_refused_steps(value: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason) as caught:
        tio.encode_sequence_example(None, {"x": value})
    assert str(caught.value).endswith("(feature 'x')")


@pytest.mark.parametrize(
    ("features", "error", "reason"),
    [
        ({1: 1}, TypeError, r"a name must be a str, not int \(feature 1\)"),
        ({None: 1}, TypeError, r"a name must be a str, not NoneType"),
        ({"\ud800": 1}, ValueError, r"the name cannot be encoded as UTF-8 \(feature '\\ud800'\)"),
        ({b"\xff": 1}, ValueError, r"the name is not UTF-8 \(feature b'\\xff'\)"),
        ({"é": 1, "é".encode(): 2}, ValueError, r"the name is there twice \(feature '\\xe9'\)"),
    ],
)
def test_refused_names(features: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        tio.encode_example(features)
    with pytest.raises(error, match=reason):
        tio.encode_sequence_example(None, {name: [1] for name in features})


def test_what_is_no_mapping() -> None:
    no_mapping: Any = [("x", 1)]
    with pytest.raises(TypeError, match="features must map names to values, not be a list"):
        tio.encode_example(no_mapping)
    nothing: Any = None
    with pytest.raises(TypeError, match="not be a NoneType"):
        tio.encode_example(nothing)
    with pytest.raises(TypeError, match=r"features must map .* a list \(example 1\)"):
        tio.encode_examples([{}, no_mapping])
    with pytest.raises(TypeError, match=r"context must map .* a list \(example 0\)"):
        tio.encode_sequence_examples([(no_mapping, None)])
    with pytest.raises(TypeError, match="sequence must map names"):
        tio.encode_sequence_example({}, no_mapping)


# ---- values that run code ----


class _Meddler:
    """Becomes an array, and does something else meanwhile."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        self._meddle()
        return np.array([7])


def test_dicts_and_lists_may_change_meanwhile() -> None:
    inner: list[Any] = [f"value {i}" * 100 for i in range(50)]
    mixed: list[Any] = [1]
    features: dict[str, Any] = {"a" * 100: inner}

    def meddle() -> None:
        inner.clear()
        mixed.extend([2] * 100)
        features.clear()
        features.update({f"new {i}": i for i in range(100)})

    features["m"] = _Meddler(meddle)
    features["n"] = [*mixed, _Meddler(meddle)]
    features["z" * 100] = ["last" * 100]
    expected = example_bytes(
        **{
            "a" * 100: texts(*[value.encode() for value in inner]),
            "m": ints(7),
            "n": ints(1, 7),
            "z" * 100: texts(b"last" * 100),
        }
    )
    assert tio.encode_example(features) == expected
    assert not inner


def test_a_value_may_encode_another_example() -> None:
    inner: list[bytes] = []
    meddler = _Meddler(lambda: inner.append(tio.encode_example({"y": b"inner"})))
    assert tio.encode_example({"x": meddler}) == example_bytes(x=ints(7))
    assert inner == [example_bytes(y=texts(b"inner"))]


def test_errors_of_values_pass() -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tio.encode_example({"x": _Meddler(fail)})


def test_nothing_is_kept() -> None:
    text, data = "é" * 1000, b"x" * 1000
    value: list[Any] = [text, text, data, bytearray(b"y")]
    before = [sys.getrefcount(kept) for kept in (text, data, value)]
    for _ in range(10):
        tio.encode_examples([{"x": value, "y": data}, {"z": value}])
        with pytest.raises(TypeError):
            tio.encode_example({"x": [*value, object()], "y": [text, 1]})
    assert [sys.getrefcount(kept) for kept in (text, data, value)] == before


def test_other_sequences_are_taken_item_by_item() -> None:
    assert tio.encode_example({"x": array.array("i", [1, 2])}) == example_bytes(x=ints(1, 2))


def empty_iterator() -> Iterator[Any]:
    yield from ()


def test_no_examples() -> None:
    assert tio.encode_examples(empty_iterator()) == []
    assert tio.encode_sequence_examples(empty_iterator()) == []
