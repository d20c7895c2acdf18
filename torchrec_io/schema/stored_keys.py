"""Which stored features specs read, and as what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import SchemaError
from .dtypes import stored_dtype
from .image_spec import ImageFeature
from .specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    keys_of,
)
from .stored_specs import RawFeature, SequenceFeature, SerializedTensorFeature


def shape_key_of(feature: Feature) -> str | None:
    """The stored feature that has the shape of arrays, or of elements; None if there is none."""
    spec = feature.element if isinstance(feature, SequenceFeature) else feature
    return spec.shape_key if isinstance(spec, RawFeature) else None


class Use(NamedTuple):
    """How a spec reads a stored feature.

    Attributes:
        key: The stored feature's name.
        manner: Two specs may read one stored feature if they agree in this.
    """

    key: str
    manner: tuple[str, ...]


def uses_of(name: str, feature: Feature) -> list[Use]:
    """The stored features that a spec reads. The first one has its values."""
    if isinstance(feature, SparseFeature):
        indices = [Use(key, ("sparse", "int64")) for key in feature.index_key]
        return [Use(feature.value_key, ("sparse", stored_dtype(feature.dtype))), *indices]
    if isinstance(feature, (RaggedFeature, SequenceFeature)):
        value: tuple[str, ...] = ("sparse", "string")
        if isinstance(feature, RaggedFeature):
            value = ("ragged", stored_dtype(feature.dtype), feature.row_splits_dtype)
        partition = ("ragged", "int64", feature.row_splits_dtype)
        return [
            Use(feature.value_key or name, value),
            *(Use(key, partition) for key in keys_of(feature.partitions)),
        ]
    if isinstance(feature, VarLenFeature):
        return [Use(name, ("sparse", stored_dtype(feature.dtype)))]
    if isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
        return [Use(name, ("dense", stored_dtype(feature.dtype)))]
    # A shape_key may name a feature that is read as anything: see Schema.
    assert isinstance(feature, (RawFeature, ImageFeature, SerializedTensorFeature))
    key = feature.value_key if isinstance(feature, RawFeature) else None
    return [Use(key or name, ("dense", "string"))]


def check_uses(features: Mapping[str, Feature]) -> None:
    """Refuses what TensorFlow refuses: one stored feature read both dense and sparse, and so on."""
    manners: dict[str, tuple[str, ...]] = {}
    for name, feature in features.items():
        for use in uses_of(name, feature):
            known = manners.setdefault(use.key, use.manner)
            if known != use.manner:
                raise SchemaError(
                    f"the stored feature {use.key!r} is asked for as {' '.join(known)} and as "
                    f"{' '.join(use.manner)}",
                    feature=name,
                )
