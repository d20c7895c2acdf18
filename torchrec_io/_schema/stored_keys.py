"""The stored features that a spec reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ..errors import SchemaError
from .dtypes import DTypeName


class StoredKey(NamedTuple):
    """A stored feature that a spec reads, and how it is read.

    Two specs can read one stored feature if they agree in ``kind``, ``dtype`` and
    ``splits_dtype``. This is TensorFlow's rule.

    Attributes:
        key: Name of the stored feature.
        kind: Manner of reading the values: "dense", "sparse" or "ragged"; or "shape" for the shapes
            of arrays, which other specs can read in any way.
        dtype: Stored dtype: "int64", "float32" or "string".
        splits_dtype: Dtype of the row splits of a "ragged" feature.
        is_required: Whether a record without the stored feature cannot be parsed.
    """

    key: str
    kind: Literal["dense", "sparse", "ragged", "shape"]
    dtype: str
    splits_dtype: str | None = None
    is_required: bool = False


class StoredCount(NamedTuple):
    """A number of items that is found by counting the stored values of a feature.

    Attributes:
        key: Name of the stored feature.
        dtype: Dtype that its values are read as.
        values_per_item: Number of stored values of one item.
    """

    key: str
    dtype: DTypeName
    values_per_item: int = 1


def check_stored_keys(keys: Mapping[str, Iterable[StoredKey]]) -> None:
    """Check that all specs that read a stored feature agree about it.

    Args:
        keys: The stored features that each spec of one part of a schema reads, by the flat name of
            the spec.

    Raises:
        SchemaError: If two specs disagree about a stored feature.
    """
    known: dict[str, StoredKey] = {}
    shapes: list[tuple[str, str]] = []
    for name, read in keys.items():
        for key in read:
            if key.kind == "shape":
                shapes.append((name, key.key))
                continue
            other = known.setdefault(key.key, key)
            if other[1:4] != key[1:4]:
                raise SchemaError(
                    f"the stored feature {key.key!r} must be read in one way, got "
                    f"{_described(other)} and {_described(key)}",
                    feature=name,
                )
    for name, shape_key in shapes:
        if shape_key in known and known[shape_key].dtype != "int64":
            raise SchemaError(
                f"shape_key must name an integer feature, got {shape_key!r}, which the schema "
                f"reads as {known[shape_key].dtype}",
                feature=name,
            )


def _described(key: StoredKey) -> str:
    splits = "" if key.splits_dtype is None else f" with {key.splits_dtype} row splits"
    return f"{key.kind} {key.dtype}{splits}"
