"""Schemas as JSON, which is read back exactly.

A schema of Examples in JSON::

    {
      "torchrec_io_schema": 1,
      "features": {
        "label": {"type": "FixedLenFeature", "shape": [], "dtype": "int64"},
        "tokens": {"type": "VarLenFeature", "dtype": "int64"}
      }
    }

A schema of SequenceExamples has ``"context"`` and ``"sequence"`` in place of ``"features"``, one of
lists of Examples ``"context"`` and ``"examples"``. A dict of features among them is
``{"type": "dict", "features": {...}}``. A spec has the name of its class as ``"type"`` and the
arguments of its class by name, without those that have their default value. In a
``default_value``, bytes that are UTF-8 are written as text and others as ``{"hex": "00ff"}``.
Floats that JSON lacks are written as ``"nan"``, ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from inspect import Parameter
from typing import Any

from ..checks import with_article
from ..errors import SchemaError
from .bounded_json import parse_json, shortened, shown
from .checks import errors_of
from .feature import Feature, Spec, feature_kinds, parameters_of, spec_class
from .nesting import MOST_LEVELS, SEPARATOR, Path

FORMAT = 1
_VERSION = "torchrec_io_schema"
_DICT = "dict"
_MAX_MESSAGE = 300
_NON_FINITE = ("nan", "inf", "-inf")


# ---- to JSON ----


def write_parts(parts: dict[str, dict[str, Any]], indent: int | None = None) -> str:
    """Return the JSON of a schema.

    Args:
        parts: Specs of each part of the schema in nested dicts, by the name of the part.
        indent: Number of spaces for each level, as for ``json.dumps``.

    Raises:
        SchemaError: If a spec cannot be written as text.
    """
    written = {part: _write_dict(specs, ()) for part, specs in parts.items()}
    return json.dumps({_VERSION: FORMAT, **written}, indent=indent, allow_nan=False)


def _write_dict(specs: dict[str, Any], path: Path) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, spec in specs.items():
        inner = (*path, key)
        if isinstance(spec, dict):
            written[key] = {"type": _DICT, "features": _write_dict(spec, inner)}
            continue
        with errors_of(SEPARATOR.join(inner)):
            written[key] = _write_value(spec)
    return written


def _write_value(value: Any) -> Any:
    if isinstance(value, Spec):
        arguments = {name: _write_value(item) for name, item in value.arguments().items()}
        return {"type": type(value).__name__, **arguments}
    if isinstance(value, tuple):
        return [_write_value(item) for item in value]
    if isinstance(value, bytes):
        return _write_bytes(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _write_bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


# ---- from JSON ----


def read_parts(text: str | bytes, allowed: Sequence[tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """Return the parts of a schema in JSON, by name.

    Args:
        text: The JSON.
        allowed: Each set of names that the parts can have.

    Raises:
        SchemaError: If this is not such JSON.
    """
    parts = _check_object("a schema", parse_json(text))
    version = parts.pop(_VERSION, None)
    if type(version) is not int or version != FORMAT:
        raise SchemaError(
            f'"{_VERSION}" must be {FORMAT}, the format of this release, got {shown(version)}'
        )
    if set(parts) not in map(set, allowed):
        choices = " or ".join(" and ".join(f'"{name}"' for name in names) for names in allowed)
        raise SchemaError(f"a schema must have {choices}, got {shown(sorted(parts))}")
    try:
        return {part: _read_features(f'"{part}"', specs, ()) for part, specs in parts.items()}
    except RecursionError:
        raise SchemaError("the JSON is nested too deeply") from None


def _read_features(what: str, features: Any, path: Path) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, spec in _check_object(what, features).items():
        inner = (*path, key)
        with errors_of(SEPARATOR.join(inner)):
            if isinstance(spec, dict) and spec.get("type") == _DICT:
                read[key] = _read_dict(spec, inner)
            else:
                read[key] = _read_spec(spec, Feature, (*feature_kinds(), _DICT))
    return read


def _read_dict(spec: dict[str, Any], path: Path) -> dict[str, Any]:
    if set(spec) != {"type", "features"}:
        raise SchemaError(f'a dict of specs must have "type" and "features", got {shown([*spec])}')
    if len(path) >= MOST_LEVELS:
        raise SchemaError(f"dicts must be nested at most {MOST_LEVELS} levels deep")
    return _read_features('"features" of a dict', spec["features"], path)


def _read_spec(value: Any, base: type[Spec], names: Sequence[str] = ()) -> Any:
    """Return the spec that a JSON object describes.

    Args:
        value: The JSON value.
        base: Class that the spec must be of.
        names: Possible names of its class, for error messages.
    """
    arguments = dict(_check_object("a spec", value))
    name = arguments.pop("type", None)
    kind = spec_class(name) if isinstance(name, str) else None
    if kind is None or not issubclass(kind, base):
        known = f"one of {', '.join(names)}" if names else "the name of a spec class"
        raise SchemaError(f'"type" must be {known}, got {shown(name)}')
    parameters = parameters_of(kind)
    for argument, given in arguments.items():
        if argument not in parameters:
            raise SchemaError(f"{with_article(kind.__name__)} takes no argument {shown(argument)}")
        # Constructors take anything as a flag, also the text "false".
        if isinstance(parameters[argument].default, bool) and not isinstance(given, bool):
            raise SchemaError(f"{argument} must be true or false, got {shown(given)}")
    for argument, parameter in parameters.items():
        if parameter.default is Parameter.empty and argument not in arguments:
            raise SchemaError(f"{with_article(kind.__name__)} needs the argument {argument!r}")
    dtype = arguments.get("dtype")
    read = {key: _read_argument(key, item, dtype) for key, item in arguments.items()}
    try:
        return kind(**read)
    except SchemaError as error:  # its message has a value of any length
        raise SchemaError(shortened(error.reason, _MAX_MESSAGE)) from None


def _read_argument(name: str, value: Any, dtype: Any) -> Any:
    if isinstance(value, list):
        return [_read_argument(name, item, dtype) for item in value]
    if name == "default_value" and isinstance(value, dict):
        return _read_bytes(value)
    if isinstance(value, dict):
        return _read_spec(value, Spec)
    is_number = name == "valid_range" or (name == "default_value" and dtype != "string")
    return float(value) if is_number and value in _NON_FINITE else value


def _read_bytes(value: dict[str, Any]) -> bytes:
    digits = value.get("hex") if len(value) == 1 else None
    try:
        return bytes.fromhex(digits)  # type: ignore[arg-type]  # a TypeError is refused below
    except (TypeError, ValueError):
        raise SchemaError(
            f'bytes in a default_value must be text or {{"hex": "00ff"}}, got {shown(value)}'
        ) from None


def _check_object(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"{what} must be a JSON object, got {shown(value)}")
    return value
