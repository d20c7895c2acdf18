"""Schemas as JSON, which reads back exactly.

A schema of Examples in JSON::

    {
      "torchrec_io_schema": 1,
      "features": {
        "label": {"type": "FixedLenFeature", "shape": [], "dtype": "int64"},
        "tokens": {"type": "VarLenFeature", "dtype": "int64"}
      }
    }

One of SequenceExamples has ``"context"`` and ``"sequence"`` in place of ``"features"``, one of
lists of Examples ``"context"`` and ``"examples"``. A dict of features among them is
``{"type": "dict", "features": {...}}``. A spec has the arguments of its class by name; those that
are as by default are left out. In a ``default_value`` bytes that are UTF-8 stand as text and others
as ``{"hex": "00ff"}``; numbers that JSON lacks are ``"nan"``, ``"inf"`` and ``"-inf"``, and a nan
of other bits than Python's own is
``{"nan": "fff8000000000000"}``, a float64. A ``valid_range`` is a list of two numbers, ``"inf"``,
``"-inf"`` or null.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from ..errors import SchemaError
from .nesting import MOST_LEVELS, SEPARATOR, Path
from .schema import Schema
from .spec_arguments import (
    CROPS,
    ELEMENTS,
    FEATURES,
    AnySchema,
    Spec,
    arguments_of,
    is_odd_nan,
    written_parts,
)
from .specs import PARTITIONS

FORMAT = 1
_VERSION = "torchrec_io_schema"

_DICT = "dict"
# The names of a Schema's parts.
_SCHEMA_PARTS = ({"features"}, {"context", "sequence"})


# ---- to JSON ----


def to_json(schema: AnySchema, indent: int | None = None) -> str:
    """A schema as JSON; see :meth:`Schema.to_json`."""
    parts = written_parts(schema, _write_spec, _write_dict)
    return json.dumps({_VERSION: FORMAT, **parts}, indent=indent, allow_nan=False)


def _write_spec(spec: Any) -> dict[str, Any]:
    arguments = arguments_of(spec)
    return {"type": type(spec).__name__} | {
        name: _write_value(value) for name, value in arguments.items()
    }


def _write_dict(features: dict[str, Any]) -> dict[str, Any]:
    return {"type": _DICT, "features": features}


def _write_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write_value(item) for item in value]
    if isinstance(value, bytes):
        return _write_bytes(value)
    if is_odd_nan(value):
        return {"nan": struct.pack(">d", value).hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _write_spec(value) if dataclasses.is_dataclass(value) else value


def _write_bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


# ---- from JSON ----


def from_json(text: str | bytes) -> Schema:
    """A schema from JSON; see :meth:`Schema.from_json`."""
    return Schema(**read_parts(text, _SCHEMA_PARTS))


def read_parts(text: str | bytes, allowed: Sequence[set[str]]) -> dict[str, dict[str, Any]]:
    """The parts of a schema in JSON, by name.

    Args:
        text: The JSON.
        allowed: Which names the parts may have together.

    Raises:
        SchemaError: it is no such JSON.
    """
    parts = _check_object(_load(text), "a schema")
    version = parts.pop(_VERSION, None)
    if type(version) is not int or version != FORMAT:
        raise SchemaError(
            f'no schema in JSON of format {FORMAT}: "{_VERSION}" is {_shown(version)}'
        )
    if set(parts) not in allowed:
        choices = ", or ".join(
            " and ".join(f'"{name}"' for name in sorted(names)) for names in allowed
        )
        raise SchemaError(f"a schema in JSON has {choices}, not {_listed(sorted(parts))}")
    return {part: _read_features(features, f'"{part}"') for part, features in parts.items()}


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise SchemaError("the JSON is nested too deep for a schema") from None
    except ValueError as error:  # also of numbers of more digits than Python reads, and of text
        raise SchemaError(f"no JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"the key {twice!r} is used twice in one JSON object")
    return made


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise SchemaError(f"no float64 holds the number {_cut(digits)}")
    return number


def _no_constant(name: str) -> Any:
    raise SchemaError(f'{name} is no JSON; in a default_value it is written as "nan" or "inf"')


def _read_features(features: Any, what: str, path: Path = ()) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, spec in _check_object(features, what).items():
        inner = (*path, key)
        try:
            if isinstance(spec, dict) and spec.get("type") == _DICT:
                read[key] = _read_dict(spec, inner)
            else:
                read[key] = _read_spec(spec, FEATURES, "a feature spec")
        except SchemaError as error:
            name = error.feature or SEPARATOR.join(inner)
            raise SchemaError(error.reason, feature=name) from None
    return read


def _read_dict(spec: dict[str, Any], path: Path) -> dict[str, Any]:
    if set(spec) != {"type", "features"}:
        others = sorted(set(spec) - {"type"})
        raise SchemaError(f'a dict of specs has "features" and no other key, not {_listed(others)}')
    if len(path) >= MOST_LEVELS:
        raise SchemaError(f"dicts are nested more than {MOST_LEVELS} levels deep")
    return _read_features(spec["features"], '"features" of a dict', path)


def _read_spec(spec: Any, classes: Mapping[str, Spec], what: str) -> Any:
    arguments = dict(_check_object(spec, what))
    kind = arguments.pop("type", None)
    made = classes.get(kind) if isinstance(kind, str) else None
    if made is None:
        kinds = ", ".join((*classes, _DICT) if classes is FEATURES else classes)
        raise SchemaError(f'"type" of {what} is one of {kinds}, not {_shown(kind)}')
    known = signature(made).parameters
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise SchemaError(f"a {kind} has no {_listed(unknown)}")
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is Parameter.empty and name not in arguments
    ]
    if missing:
        raise SchemaError(f"a {kind} needs {_listed(missing)}")
    dtype = arguments.get("dtype")
    return made(
        **{
            name: _read_default(value, dtype) if name == "default_value" else _READ[name](value)
            for name, value in _in_order(arguments, known)
        }
    )


def _in_order(arguments: Mapping[str, Any], known: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, arguments[name]) for name in known if name in arguments]


# ---- values ----


def _read_default(value: Any, dtype: Any) -> Any:
    """A default as its spec takes it, which checks it against dtype and shape."""
    if isinstance(value, list):
        return [_read_default_item(item, dtype) for item in value]
    return _read_default_item(value, dtype)


def _read_default_item(item: Any, dtype: Any) -> Any:
    if isinstance(item, str):
        if dtype == "string":
            return item
        if item in ("nan", "inf", "-inf"):
            return float(item)
    if isinstance(item, dict) and set(item) == {"hex"}:
        return _read_hex(item["hex"])
    if isinstance(item, dict) and set(item) == {"nan"}:
        return _read_nan(item["nan"])
    if isinstance(item, (int, float)):
        return item
    raise SchemaError(
        '"default_value" has numbers, "nan", "inf", "-inf", or for bytes text and '
        f'{{"hex": digits}}, not {_shown(item)}'
    )


def _read_hex(digits: Any) -> bytes:
    try:
        read = bytes.fromhex(digits)
    except (TypeError, ValueError):
        read = None
    if read is None or read.hex() != digits:  # no spaces, no capitals: one way to write it
        raise SchemaError(f"bytes are two digits each, from 0 to f, not {_shown(digits)}")
    return read


def _read_nan(digits: Any) -> float:
    bits = _read_hex(digits)
    if len(bits) == 8:
        number: float = struct.unpack(">d", bits)[0]
        if math.isnan(number):
            return number
    raise SchemaError(f'"nan" is the 16 digits of a float64 that is a nan, not {_shown(digits)}')


def _of(kind: type, words: str) -> Callable[[Any], Any]:
    """Makes a check that a value is of a JSON type."""

    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise SchemaError(f"{_shown(value)} stands where {words} belongs")
        return value

    return read


def _list_of(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a check that a value is a list of what passes a check."""
    check = _of(list, "a list")
    return lambda value: tuple(item(part) for part in check(value))


def _read_partition(value: Any) -> Any:
    return _read_spec(value, PARTITIONS, "a partition")


def _read_augment(value: Any) -> Any:
    return _read_spec(value, CROPS, "an augment function")


def _real(value: Any) -> Any:
    """Checks that a value is a number, whole or not; which one its spec knows."""
    return value if type(value) is float else _of(int, "a number")(value)


def _read_element(value: Any) -> Any:
    return _read_spec(value, ELEMENTS, "an element")


def _or_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a check that a value is null or passes a check."""
    return lambda value: None if value is None else check(value)


def _read_bound(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    if value is not None and type(value) not in (int, float):
        raise SchemaError(f'"valid_range" has numbers, "inf", "-inf" or null, not {_shown(value)}')
    return value


_text, _number, _flag = _of(str, "text"), _of(int, "a whole number"), _of(bool, "true or false")
# Arguments of one name are alike in all specs.
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("dtype", "row_splits_dtype", "value_key", "shape_key", "key", "layout", "mixed"),
        _text,
    ),
    **dict.fromkeys(
        ("fixed_length", "channels", "max_pixels", "max_bytes", "length", "rows", "fill"), _number
    ),
    **dict.fromkeys(
        (
            "allow_missing",
            "already_sorted",
            "validate",
            "little_endian",
            "apply_exif_orientation",
            "bitcast",
            "animated",
        ),
        _flag,
    ),
    **dict.fromkeys(("size", "crop"), _list_of(_number)),
    **dict.fromkeys(("scale", "ratio", "dequantize"), _list_of(_real)),
    **dict.fromkeys(("decoder", "resize", "compression"), _or_none(_text)),
    "shape": _list_of(_or_none(_number)),
    "element": _read_element,
    "flip": _real,
    "augment": _read_augment,
    "index_key": _list_of(_text),
    "names": _list_of(_text),
    "partitions": _list_of(_read_partition),
    "valid_range": _list_of(_read_bound),
}


def _check_object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"{what} is a JSON object, not {_shown(value)}")
    return value


def _listed(names: Sequence[str]) -> str:
    return _cut(", ".join(map(repr, names))) if names else "neither"


def _shown(value: Any) -> str:
    try:
        return _cut(repr(value))
    except (RecursionError, ValueError):  # the second of an int of very many digits
        return f"a {type(value).__name__}"


def _cut(text: str) -> str:
    """The start of a text: files may hold long ones."""
    return text if len(text) <= 80 else text[:79] + "…"
