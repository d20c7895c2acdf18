"""Schemas of the layouts in ``layouts.json``.

The file has a table for each preset: its features by name, and how the layout is recognized.

| name or spec | meaning |
| --- | --- |
| ``"a/{x,y}"`` | the features ``a/x`` and ``a/y`` |
| ``"$key"`` | the feature that the argument ``key`` names; none if it is None |
| ``"int64"``, ``"int64[8,3]"`` | ``FixedLenFeature`` of a shape; sizes may be arguments |
| ``"int64=0"``, ``"string="`` | ``FixedLenFeature`` with a default |
| ``"int64*"`` | ``VarLenFeature`` |
| ``"image"`` | the argument ``image``, or ``ImageFeature()`` |
| ``"masks"`` | a sequence of images of one channel |
| ``"quantized[8]"`` | a sequence of arrays of bytes, which the argument ``dequantize`` converts |

The features of ``"context"`` and ``"sequence"`` are always part of the schema. The name of another
table of features is a flag: they are part of the context if the argument of this name is true.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._schema.stored_specs import RawFeature, SequenceFeature

# Values of 0 and 255: min_quantized_value and max_quantized_value in readers.py of youtube-8m.
_QUANTIZED = (-2.0, 2.0)
_SPEC = re.compile(r"(\w+)(?:\[(.*)\])?(\*)?(?:=(.*))?")


@functools.cache
def layouts() -> dict[str, dict[str, Any]]:
    """Return the tables of all presets, by name."""
    found: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("layouts.json").read_text("utf-8")
    )
    return found


def schema_of(name: str, **arguments: Any) -> Schema:
    """Return the schema of a preset.

    Args:
        name: Name of the preset.
        arguments: Arguments of the preset.
    """
    table = layouts()[name]
    context = _specs(table["context"], arguments)
    for flag, value in arguments.items():
        if value is True and flag in table:
            context |= _specs(table[flag], arguments)
    if "sequence" not in table:
        return Schema(context)
    return Schema(context=context, sequence=_specs(table["sequence"], arguments))


def expand_names(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that patterns such as ``"a/{x,y}"`` stand for."""
    for name in names:
        start, *rest = re.split(r"\{(.*?)\}", name)
        ends = rest[1:] or [""]
        yield from (f"{start}{part}{ends[0]}" for part in (rest or [""])[0].split(","))


def _specs(table: Mapping[str, str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _spec_of(text, arguments)
        for pattern, text in table.items()
        for each in expand_names([pattern])
        if (name := arguments[each[1:]] if each.startswith("$") else each) is not None
    }


def _spec_of(text: str, arguments: Mapping[str, Any]) -> Any:
    found = _SPEC.fullmatch(text)
    assert found is not None
    kind: Any
    kind, sizes, is_variable, default = found.groups()
    shape = [arguments[n] if n in arguments else int(n) for n in sizes.split(",")] if sizes else []
    if kind == "image":
        return arguments["image"] or ImageFeature()
    if kind == "masks":
        return SequenceFeature(ImageFeature(channels=1))
    if kind == "quantized":
        scale = _QUANTIZED if arguments["dequantize"] else None
        return SequenceFeature(RawFeature("uint8", shape, dequantize=scale))
    if is_variable:
        return VarLenFeature(kind)
    if default is None:
        return FixedLenFeature(shape, kind)
    return FixedLenFeature(shape, kind, default_value="" if kind == "string" else int(default))
