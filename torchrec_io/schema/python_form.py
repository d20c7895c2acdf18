"""Schemas as Python source."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from .spec_arguments import AnySchema, arguments_of, is_odd_nan, written_parts
from .specs import PARTITIONS


def to_python(schema: AnySchema) -> str:
    """A schema as Python source; see :meth:`Schema.to_python`."""
    lines = ["import torchrec_io as tio", "", f"schema = tio.{schema.public_name}("]
    for part, specs in written_parts(schema, _python_spec).items():
        start = "" if part == "features" else f"{part}="
        lines += [f"    {start}{{", *_python_entries(specs, 2), "    }" + ("," if start else "")]
    if any("struct.unpack(" in line for line in lines):
        lines.insert(0, "import struct\n")
    return "\n".join([*lines, ")", ""])


def _python_entries(specs: Mapping[str, Any], level: int) -> Iterator[str]:
    """Lines of a dict of written specs, and of dicts of them."""
    start = "    " * level
    for name, spec in specs.items():
        if isinstance(spec, dict):
            yield f"{start}{_python(name)}: {{"
            yield from _python_entries(spec, level + 1)
            yield f"{start}}},"
        else:
            yield f"{start}{_python(name)}: {spec},"


# Arguments that read well without their names.
_BY_PLACE = ("element", "shape", "dtype")


def _python_spec(spec: Any) -> str:
    arguments = arguments_of(spec)
    words: list[str] = []
    by_place = True
    for place, name in enumerate(signature(type(spec)).parameters):
        if name in arguments:
            by_place = by_place and place == len(words) and name in _BY_PLACE
            words.append(("" if by_place else f"{name}=") + _python(arguments[name]))
    return f"tio.{type(spec).__name__}({', '.join(words)})"


def _python_part(part: Any) -> str:
    """Source of a partition, an element, or an augment function."""
    if type(part) not in PARTITIONS.values():
        return _python_spec(part)
    [argument] = arguments_of(part).values()
    return f"tio.RaggedFeature.{type(part).__name__}({_python(argument)})"


def _python(value: Any) -> str:
    """Source of a value; escapes all that is not printable, as ``repr`` does."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_python, value))}]"
    if is_odd_nan(value):
        return f'struct.unpack(">d", bytes.fromhex("{struct.pack(">d", value).hex()}"))[0]'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if dataclasses.is_dataclass(value):
        return _python_part(value)
    if not isinstance(value, (str, bytes)):
        return repr(value)
    text = repr(bytes(value) if isinstance(value, bytes) else str(value))
    if text.endswith("'") and '"' not in text:
        text = text.replace("'", '"')  # the two quotes: with others inside, repr takes these
    return text


def entries_to_python(features: Mapping[str, Any]) -> list[str]:
    """Source of the entries of a dict of specs, for where ``tio`` is imported.

    Raises:
        SchemaError: a spec is of a class that is not this package's.
    """
    return [f"{_python(name)}: {_python_spec(spec)}," for name, spec in features.items()]
