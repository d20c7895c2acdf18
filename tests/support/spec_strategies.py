"""Specs and schemas of every kind, for property tests."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

import torchrec_io as tio
from torchrec_io._schema.dtypes import (
    DTYPES,
    FLOAT_ENDS,
    RAW_DTYPES,
    integer_range,
    is_integer_dtype,
    item_bytes,
)

# Any text without surrogates, also control characters, quotes and right-to-left marks.
names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["image/encoded", "a b", "\x1b[31m", "\x7f", "'", '"', "'\"", "\\", "\u202e"]),
)
keys = names.filter(bool)
_one = st.lists(keys, min_size=1, max_size=1)
_own_keys = st.none() | keys
shapes = st.lists(st.integers(0, 4), max_size=3)
full_shapes = st.lists(st.integers(1, 4), max_size=3)


def values(dtype: str) -> st.SearchStrategy[Any]:
    """Return a strategy of default values of a dtype."""
    if dtype == "string":
        return st.one_of(st.binary(max_size=6), names)
    if is_integer_dtype(dtype):
        low, high = integer_range(dtype)
        return st.integers(low, high)
    floats = st.floats(allow_nan=False).filter(
        lambda x: not math.isfinite(x) or abs(x) < FLOAT_ENDS[dtype]
    )
    odd = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1])
    return st.one_of(floats, odd)


@st.composite
def ranges(draw: st.DrawFn, dtype: str) -> Any:
    """Draw a ``valid_range`` of a dtype, or None."""
    if dtype == "string" or dtype.startswith("complex") or draw(st.booleans()):
        return None
    numbers = values(dtype).filter(lambda number: not math.isnan(number))
    low, high = sorted([draw(numbers), draw(numbers)])
    return draw(st.sampled_from([(low, high), [low, None], (None, high), (-math.inf, None)]))


@st.composite
def of_numbers(draw: st.DrawFn, dtype: str, *, bits: bool = True) -> dict[str, Any]:
    """Draw ``names`` and, with ``bits``, ``bitcast``, if the dtype allows them."""
    options: dict[str, Any] = {}
    if is_integer_dtype(dtype) and dtype != "bool" and draw(st.booleans()):
        options["names"] = draw(st.lists(names, unique=True, max_size=3))
    if bits and dtype == "uint64":
        options["bitcast"] = draw(st.booleans())
    return options


@st.composite
def normalizes(draw: st.DrawFn, shape: tuple[int, ...]) -> tio.Normalize:
    """Draw a Normalize of a shape."""
    count = math.prod(shape)

    def drawn(numbers: st.SearchStrategy[Any]) -> Any:
        return np.reshape(draw(st.lists(numbers, min_size=count, max_size=count)), shape)

    scale = st.floats(0.125, 8, width=32) | st.just(0.0)
    mask = drawn(st.booleans()).astype(bool) if draw(st.booleans()) else None
    clip = draw(st.none() | st.integers(1, 9) | st.floats(0.5, 9))
    return tio.Normalize(drawn(st.floats(-8, 8, width=32)), drawn(scale), mask, clip)


@st.composite
def normalized(draw: st.DrawFn, dtype: str, shape: Any) -> dict[str, Any]:
    """Draw ``normalize``, if the dtype allows it, of the last dimensions of a shape."""
    if dtype not in ("float32", "float64") or draw(st.booleans()):
        return {}
    return {"normalize": draw(normalizes(tuple(shape[draw(st.integers(0, len(shape))) :])))}


@st.composite
def fixed(draw: st.DrawFn) -> tio.FixedLenFeature:
    """Draw FixedLenFeatures, half of them with a default."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(shapes)
    default, valid = None, draw(ranges(dtype))
    if draw(st.booleans()):
        count = math.prod(shape)
        default = draw(st.lists(values(dtype), min_size=count, max_size=count))
        are_numbers = dtype != "string" and count and not any(map(math.isnan, default))
        valid = (min(default), max(default)) if valid and are_numbers else None
    options = {"key": draw(_own_keys), **draw(of_numbers(dtype)), **draw(normalized(dtype, shape))}
    return tio.FixedLenFeature(shape, dtype, default, valid_range=valid, **options)


@st.composite
def parts(draw: st.DrawFn, in_list: bool) -> tio.FixedLenSequenceFeature:
    """Draw FixedLenSequenceFeatures of an Example, or of a feature list."""
    dtype = draw(st.sampled_from(DTYPES))
    default = None if in_list else draw(st.one_of(st.none(), values(dtype)))
    missing = draw(st.booleans()) if in_list else True
    options = {"valid_range": draw(ranges(dtype)), **draw(of_numbers(dtype, bits=False))}
    shape = draw(full_shapes)
    options |= {"key": draw(_own_keys), **draw(normalized(dtype, shape))}
    return tio.FixedLenSequenceFeature(shape, dtype, missing, default, **options)


@st.composite
def sparse(draw: st.DrawFn) -> tio.SparseFeature:
    """Draw SparseFeatures."""
    index = draw(st.lists(keys, min_size=1, max_size=3))
    sizes = st.lists(st.integers(0, 1000), min_size=len(index), max_size=len(index))
    dtype = draw(st.sampled_from(DTYPES))
    return tio.SparseFeature(
        index,
        draw(keys),
        dtype,
        draw(sizes),
        draw(st.booleans()),
        valid_range=draw(ranges(dtype)),
    )


_ragged = tio.RaggedFeature
partitions = st.one_of(
    *(
        st.builds(made, keys)
        for made in (
            _ragged.RowSplits,
            _ragged.RowLengths,
            _ragged.RowStarts,
            _ragged.RowLimits,
            _ragged.ValueRowIds,
        )
    ),
    st.builds(_ragged.UniformRowLength, st.integers(1, 9)),
    st.builds(_ragged.UniformRowLength, st.just(np.int64(3))),
    st.builds(_ragged.UniformRowCount, st.integers(1, 9)),
)


@st.composite
def raggeds(draw: st.DrawFn) -> tio.RaggedFeature:
    """Draw RaggedFeatures with partitions of every kind."""
    dtype = draw(st.sampled_from(DTYPES))
    divided = draw(st.lists(partitions, max_size=3))
    uniform = itertools.takewhile(lambda each: hasattr(each, "length"), reversed(divided))
    shape = [each.length for each in uniform][::-1]
    return tio.RaggedFeature(
        dtype,
        draw(st.none() | keys),
        divided,
        draw(st.sampled_from(["int32", "int64"])),
        draw(st.booleans()),
        valid_range=draw(ranges(dtype)),
        **draw(of_numbers(dtype)),
        **draw(normalized(dtype, shape)),
    )


ragged = raggeds()


_lengths = st.integers(1, 900)
_chances = st.floats(0, 1)
_groups = st.none() | keys
crops = st.one_of(
    st.builds(
        tio.RandomResizedCrop,
        st.tuples(st.floats(0.01, 1), st.floats(0.01, 1) | st.just(1)).map(sorted),
        st.tuples(st.floats(0.1, 9), st.floats(0.1, 9) | st.just(3)).map(sorted),
        _chances | st.sampled_from([0, 1]),
        _groups,
    ),
    st.builds(tio.RandomCrop, st.tuples(_lengths, _lengths), _chances, _groups),
    st.builds(tio.RandomFlip, _chances, _groups),
)


@st.composite
def raw_images(draw: st.DrawFn) -> tio.RawFeature:
    """Draw RawFeatures that are cropped or resized."""
    sides = draw(st.lists(st.none() | _lengths, min_size=2, max_size=2))
    unknown = sides.count(None)
    shape_key = draw(st.lists(keys, min_size=unknown, max_size=unknown)) if unknown else None
    return tio.RawFeature(
        "uint8",
        [*sides, draw(st.sampled_from([1, 3]))],
        shape_key,
        size=draw(st.tuples(_lengths, _lengths)),
        augment=draw(st.none() | crops),
    )


@st.composite
def raw(draw: st.DrawFn, *, alone: bool = True) -> tio.RawFeature:
    """Draw RawFeatures with all ways to specify the shape, or only those allowed as elements."""
    dtype = draw(st.sampled_from(RAW_DTYPES))
    options: dict[str, Any] = {"little_endian": draw(st.booleans())}
    options["valid_range"] = draw(ranges(dtype))
    ways = ["shape", "shape_key", "open", "open_key", *(["fixed_length", "both"] if alone else [])]
    way = draw(st.sampled_from(ways))
    if alone:
        options["key"] = draw(_own_keys)
    if way not in ("fixed_length", "both"):
        options["compression"] = draw(st.sampled_from([None, "zlib"]))
        if options["compression"]:
            options["max_bytes"] = draw(st.just(1 << 28) | st.integers(1, 1 << 40))
        if dtype == "uint8" and options["valid_range"] is None:
            ends = st.tuples(st.integers(-9, 0), st.integers(1, 9) | st.floats(0.5, 9))
            options["dequantize"] = draw(st.none() | ends)
    if way in ("shape_key", "open_key"):
        names_of_sizes = st.lists(keys, min_size=1, max_size=3)
        options["shape_key"] = draw(keys | names_of_sizes if way == "shape_key" else keys | _one)
    if way in ("open", "open_key"):
        options["shape"] = [*draw(full_shapes), None, *draw(full_shapes)]
    elif way != "shape_key":
        shape = draw(full_shapes)
        if way != "fixed_length":
            options["shape"] = shape
        if way != "shape":
            options["fixed_length"] = math.prod(shape) * item_bytes(dtype)
    return tio.RawFeature(dtype, **options)


def _strengths(least: float, most: float) -> st.SearchStrategy[Any]:
    """Draw the strength of a change of colors, or the range of its factors."""
    ends = st.floats(least, most) | st.sampled_from([0, most])
    return st.floats(0, min(1, most)) | st.just(0) | st.tuples(ends, ends).map(sorted)


jitters = st.builds(
    tio.ColorJitter,
    *[_strengths(0, 1_000_000)] * 3,
    _strengths(-0.5, 0.5),
    _chances | st.sampled_from([0, 1]),
)


_IMAGE_DTYPES: tuple[Any, ...] = ("uint8", "uint16", "float32", "float64", "float16", "bfloat16")
_decoders: list[dict[str, Any]] = [
    {},
    {"decoder": "pillow"},
    {"decoder": "native"},
    {"fast": True},
    {"decoder": "native", "tf_compatible": True},
]


@st.composite
def images(draw: st.DrawFn, *, alone: bool = True) -> tio.ImageFeature:
    """Draw ImageFeatures, some without decoding, or only those allowed as elements."""
    size = draw(st.none() | st.tuples(_lengths, _lengths))
    exact: Any = {"size": size, "resize": None} if size else {}
    kinds = ["usual"] * 7 + ["bitcast", "animated"] + ["undecoded"] * alone
    kind = draw(st.sampled_from(kinds))
    if kind == "undecoded":
        return tio.ImageFeature(decoder=None, key=draw(_own_keys))
    if kind == "bitcast":
        return tio.ImageFeature(1, "float32", bitcast=True, **exact)
    if kind == "animated":
        return tio.ImageFeature(animated=True, size=size)
    dtype = draw(st.sampled_from(_IMAGE_DTYPES))
    resizes: list[Any] = ["stretch", "cover", "contain", None]
    resize: Any = draw(st.sampled_from(resizes)) if size else "stretch"
    numbers_of_classes = draw(of_numbers(dtype))
    channels: Any = draw(st.sampled_from([0, 1, 2, 3, 4, np.int64(3)]))
    mixed: Any = "pad" if alone and channels and not size and draw(st.booleans()) else "list"
    index = st.integers(0, 900)
    options = dict(draw(st.sampled_from(_decoders)))
    if dtype == "uint8" and channels == 1 and draw(st.booleans()):
        options["palette"] = "index"
    is_exact = dtype == "uint16" or "palette" in options or numbers_of_classes
    if size and resize and (is_exact or draw(st.booleans())):
        options["filter"] = "nearest"
        options.pop("fast", None)
    if size and resize == "cover" and draw(st.booleans()):
        options["short_side"] = max(size) + draw(st.integers(0, 9))
    if "float" in dtype and channels and mixed == "list":
        for name, least in (("mean", -9.0), ("std", 0.001)):
            numbers = st.tuples(*[st.floats(least, 9.0)] * int(channels))
            options[name] = draw(st.none() | numbers)
    if channels == 3 and dtype != "uint16" and not numbers_of_classes:
        options["jitter"] = draw(st.none() | jitters)
    return tio.ImageFeature(
        channels=channels,
        dtype=dtype,
        layout=draw(st.sampled_from(["CHW", "HWC"])),
        size=size,
        max_pixels=draw(st.just(1 << 26) | st.integers(1, 1 << 40)),
        resize=resize,
        fill=draw(st.just(0) | st.integers(0, 255)),
        crop=draw(st.none() | st.tuples(index, index, _lengths, _lengths)),
        augment=draw(st.none() | crops),
        mixed=mixed,
        key=draw(_own_keys) if alone else None,
        apply_exif_orientation=draw(st.booleans()),
        **options,
        **numbers_of_classes,
    )


@st.composite
def sequences(draw: st.DrawFn, *, in_list: bool = False) -> tio.SequenceFeature:
    """Draw SequenceFeatures of an Example, or of a feature list."""
    is_long = draw(st.booleans())
    return tio.SequenceFeature(
        draw(images(alone=False) | raw(alone=False)),
        draw(st.integers(0, 9)) if is_long else None,
        draw(_own_keys),
        [] if is_long or in_list else draw(st.lists(partitions, max_size=3)),
        draw(st.sampled_from(["int32", "int64"])),
    )


serialized = st.builds(
    tio.SerializedTensorFeature,
    st.sampled_from((*RAW_DTYPES, "string")),
    st.none() | shapes,
    key=_own_keys,
)


@st.composite
def varyings(draw: st.DrawFn) -> tio.VarLenFeature:
    """Draw VarLenFeatures."""
    dtype = draw(st.sampled_from(DTYPES))
    options = {"key": draw(_own_keys), **draw(of_numbers(dtype))}
    options |= draw(normalized(dtype, ()))
    return tio.VarLenFeature(dtype, valid_range=draw(ranges(dtype)), **options)


varying = varyings()


@st.composite
def places(draw: st.DrawFn, kind: Any, formats: list[str], count: int) -> Any:
    """Draw BoxFeatures or KeypointFeatures without a group, which needs an image."""
    names = st.lists(keys, min_size=count, max_size=count, unique=True)
    options = {"min_size": draw(st.floats(0, 9))} if count == 4 else {}
    return kind(
        draw(st.none() | keys | names),
        format=draw(st.sampled_from(formats)),
        normalized=draw(st.booleans()),
        **options,
    )


boxes = places(tio.BoxFeature, ["yxyx", "xyxy", "xywh", "cxcywh"], 4)
keypoints = places(tio.KeypointFeature, ["yx", "xy"], 2)


@st.composite
def grouped(draw: st.DrawFn) -> dict[str, Any]:
    """Draw features of an image of a group, and of places that follow it."""
    group = draw(keys)
    augment = dataclasses.replace(draw(crops), group=group)
    encoded = images(alone=False).filter(lambda image: not (image.bitcast or image.animated))
    image: Any = draw(raw_images() | encoded)
    image = dataclasses.replace(image, augment=augment)
    followers = draw(st.lists(boxes | keypoints, min_size=1, max_size=2))
    specs = [
        tio.SequenceFeature(image) if draw(st.booleans()) else image,
        *(dataclasses.replace(spec, group=group) for spec in followers),
    ]
    own = draw(st.lists(names, min_size=len(specs), max_size=len(specs), unique=True))
    return dict(zip(own, draw(st.permutations(specs)), strict=True))


_SPECS: dict[str, st.SearchStrategy[Any]] = {
    "FixedLenFeature": fixed(),
    "VarLenFeature": varying,
    "FixedLenSequenceFeature": parts(in_list=False),
    "SparseFeature": sparse(),
    "RaggedFeature": ragged,
    "RawFeature": raw() | raw_images(),
    "SerializedTensorFeature": serialized,
    "ImageFeature": images(),
    "SequenceFeature": sequences(),
    "BoxFeature": boxes,
    "KeypointFeature": keypoints,
}


def _schema(**parts: Any) -> tio.Schema | None:
    try:
        return tio.Schema(**parts)
    except tio.SchemaError:  # the keys of different specs conflict
        return None


# Schemas without conflicting keys.
SPECS = {
    name: specs.filter(lambda spec: _schema(features={"some": spec}) is not None)
    for name, specs in _SPECS.items()
}
_in_context = [
    specs
    for name, specs in SPECS.items()
    if name not in ("FixedLenSequenceFeature", "SparseFeature")
]


def _nested(specs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of specs and nested dicts of specs."""
    return st.recursive(
        specs, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3), max_leaves=3
    )


_schemas: st.SearchStrategy[tio.Schema | None] = st.one_of(
    st.builds(
        _schema,
        features=st.dictionaries(
            names, _nested(st.one_of(*SPECS.values())), min_size=1, max_size=4
        ),
    ),
    st.builds(_schema, features=grouped()),
    st.builds(
        _schema,
        context=st.dictionaries(names, _nested(st.one_of(*_in_context)), max_size=2),
        sequence=st.dictionaries(
            names, st.one_of(varying, parts(in_list=True), ragged, sequences(in_list=True))
        ),
    ),
)
schemas: st.SearchStrategy[Any] = _schemas.filter(lambda schema: schema is not None)
