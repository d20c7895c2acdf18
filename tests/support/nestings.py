"""Nested dicts of features, with their stored features and expected results."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io._schema.feature import Feature

Tree: TypeAlias = Mapping[str, Any]


def _image(i: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (1 + i % 3, 2 + i % 2), (i, 2, 3)).save(out, "JPEG" if i % 2 else "PNG")
    return out.getvalue()


class Leaf(NamedTuple):
    """A feature.

    Attributes:
        make: Function from its flat name to its spec.
        values: Values stored in each record.
    """

    make: Callable[[str], Feature]
    values: Callable[[int], list[Any]]


_uniform = tio.RaggedFeature.UniformRowLength(2)
LEAVES = {
    "number": Leaf(lambda _: tio.FixedLenFeature([], "int64"), lambda i: [i]),
    "pair": Leaf(lambda _: tio.FixedLenFeature([2], "float32"), lambda i: [i + 0.5, -1.0]),
    "text": Leaf(lambda _: tio.FixedLenFeature([], "string"), lambda i: [b"n%d" % i]),
    "tokens": Leaf(lambda _: tio.VarLenFeature("int32"), lambda i: list(range(i % 4))),
    "words": Leaf(
        lambda _: tio.VarLenFeature("string"), lambda i: [b"w%d" % n for n in range(i % 5)]
    ),
    "boxes": Leaf(
        lambda name: tio.RaggedFeature("float32", name or None, [_uniform]),
        lambda i: [0.5, i] * (i % 3),
    ),
    "padded": Leaf(
        lambda _: tio.FixedLenSequenceFeature([], "int64", allow_missing=True, default_value=-1),
        lambda i: [i] * (i % 4),
    ),
    "image": Leaf(lambda _: tio.ImageFeature(), lambda i: [_image(i)]),
    "image_padded": Leaf(lambda _: tio.ImageFeature(mixed="pad"), lambda i: [_image(i)]),
    "sized": Leaf(lambda _: tio.ImageFeature(size=(2, 2)), lambda i: [_image(i)]),
}

_keys = st.one_of(st.sampled_from(["a", "b", "objects", "lengths", "type"]), st.text(max_size=2))
_inner: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.dictionaries(_keys, inner, min_size=1, max_size=3),
    max_leaves=4,
)


def leaves_of(tree: Tree, before: str = "") -> Iterator[tuple[str, str]]:
    """Return the features of a tree by flat name."""
    for key, value in tree.items():
        if isinstance(value, str):
            yield before + key, value
        else:
            yield from leaves_of(value, f"{before}{key}/")


def _is_plain(tree: Tree) -> bool:
    names = [name for name, _ in leaves_of(tree)]
    return len(set(names)) == len(names)


# Leaves have names. No two leaves of a tree have the same flat name.
trees: st.SearchStrategy[Tree] = st.dictionaries(_keys, _inner, min_size=1, max_size=4).filter(
    _is_plain
)


def specs_of(tree: Tree, before: str = "") -> dict[str, Any]:
    """Return the specs of a tree, as arguments of Schema."""
    return {
        key: LEAVES[value].make(before + key)
        if isinstance(value, str)
        else specs_of(value, f"{before}{key}/")
        for key, value in tree.items()
    }


def flat_schema(tree: Tree) -> tio.Schema:
    """Return a schema of the same features without nested dicts."""
    return tio.Schema({name: LEAVES[leaf].make(name) for name, leaf in leaves_of(tree)})


def record(tree: Tree, i: int) -> bytes:
    return example_of(**{name: LEAVES[leaf].values(i) for name, leaf in leaves_of(tree)})


def nested_like(tree: Tree, flat: Any, before: str = "") -> dict[str, Any]:
    """Nest values by flat name like a tree."""
    return {
        key: flat[before + key]
        if isinstance(value, str)
        else nested_like(value, flat, f"{before}{key}/")
        for key, value in tree.items()
    }


def plain(value: Any) -> Any:
    """Convert a value to Python values, for comparisons."""
    if hasattr(value, "items"):
        return [(key, plain(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, Tensor):
        return value.dtype, value.shape, value.tolist()
    if isinstance(value, (tio.Ragged, tio.BytesArray)):
        return type(value), value.offsets.dtype, value.tolist()
    return value
