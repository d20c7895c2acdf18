"""What schemas are written by, as text of any kind: their parts, and the arguments of specs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import SchemaError
from .crops import RandomCrop, RandomResizedCrop
from .dtypes import item_bytes
from .image_spec import ImageFeature
from .nesting import SEPARATOR, Path, nested
from .schema import Schema
from .specs import (
    PARTITIONS,
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from .stored_specs import RawFeature, SequenceFeature, SerializedTensorFeature

if TYPE_CHECKING:
    from ..ranking.schema import Schema as ListSchema

Spec = type[Any]
FEATURES: dict[str, Spec] = {
    made.__name__: made
    for made in (
        FixedLenFeature,
        VarLenFeature,
        FixedLenSequenceFeature,
        SparseFeature,
        RaggedFeature,
        RawFeature,
        SerializedTensorFeature,
        ImageFeature,
        SequenceFeature,
    )
}
ELEMENTS: dict[str, Spec] = {made.__name__: made for made in (ImageFeature, RawFeature)}
CROPS: dict[str, Spec] = {made.__name__: made for made in (RandomResizedCrop, RandomCrop)}

AnySchema: TypeAlias = "Schema | ListSchema"


def written_parts(
    schema: AnySchema,
    write: Callable[[Any], Any],
    write_dict: Callable[[dict[str, Any]], Any] = dict,
) -> dict[str, dict[str, Any]]:
    """The written specs of each part of a schema, by the name the part has in JSON."""
    parts: dict[str, Mapping[str, Feature]]
    if not isinstance(schema, Schema):
        parts = {"context": schema.context, "examples": schema.examples}
    elif schema.sequence is None:
        parts = {"features": schema.context}
    else:
        parts = {"context": schema.context, "sequence": schema.sequence}

    def written(tree: dict[str, Any], path: Path = ()) -> dict[str, Any]:
        made = {}
        for key, value in tree.items():
            if isinstance(value, dict):
                made[key] = write_dict(written(value, (*path, key)))
                continue
            try:
                made[key] = write(value)
            except SchemaError as error:
                name = SEPARATOR.join((*path, key))
                raise SchemaError(error.reason, feature=name) from None
        return made

    return {part: written(nested(features, schema.paths)) for part, features in parts.items()}


def arguments_of(spec: Any) -> dict[str, Any]:
    """The arguments that make a spec or partition, less those that are as by default."""
    if type(spec) not in (*FEATURES.values(), *PARTITIONS.values(), *CROPS.values()):
        raise SchemaError(f"a {type(spec).__name__} cannot be written as text")
    arguments = {
        name: getattr(spec, name)
        for name, known in signature(type(spec)).parameters.items()
        if getattr(spec, name) != known.default
    }
    if isinstance(spec, RawFeature) and spec.fixed_length:
        if_left_out = (spec.fixed_length // item_bytes(spec.dtype),)
        if spec.shape == if_left_out:
            del arguments["shape"]
    if "augment" in arguments and type(spec.augment) not in CROPS.values():
        raise SchemaError(
            f"an augment function cannot be written as text, unless it is a {' or a '.join(CROPS)}"
        )
    if "default_value" in arguments and (
        isinstance(spec, FixedLenSequenceFeature) or not spec.shape
    ):
        [arguments["default_value"]] = spec.default_value
    return arguments


def is_odd_nan(value: Any) -> bool:
    """Whether a value is a nan of other bits than Python's own."""
    if not isinstance(value, float) or not math.isnan(value):
        return False
    return struct.pack(">d", value) != struct.pack(">d", math.nan)
