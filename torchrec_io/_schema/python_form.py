"""Schemas as Python source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..checks import with_article
from ..errors import SchemaError
from .checks import errors_of
from .feature import Spec, parameters_of
from .nesting import SEPARATOR, Path
from .row_partitions import Partition

_PACKAGE = __name__.partition(".")[0]
# Arguments that are written without their names.
_POSITIONAL = ("element", "shape", "dtype")


def schema_to_python(
    name: str,
    parts: Mapping[str, Mapping[str, Any]],
    notes: Sequence[str],
    comments: Mapping[str, str],
) -> str:
    """Return Python source that makes a schema.

    Args:
        name: Name of the schema's class in ``torchrec_io``.
        parts: Specs of each part of the schema in nested dicts, by the name of the part.
        notes: Texts of comments before the schema.
        comments: Comments on features by flat name; "" for none.

    Raises:
        SchemaError: If a spec cannot be written as text.
    """
    imports: set[str] = set()
    lines = [f"schema = tio.{name}("]
    for part, specs in parts.items():
        start = "" if part == "features" else f"{part}="
        end = "}" if part == "features" else "},"
        lines += [f"    {start}{{", *_entries(specs, 2, (), imports, comments), f"    {end}"]
    lines[:0] = [f"# {note}" for note in notes]
    return "\n".join(["import torchrec_io as tio", *sorted(imports), "", *lines, ")", ""])


def to_python(value: Any) -> str:
    """Return source of a spec of this package, or of an argument of one.

    Raises:
        SchemaError: If the spec cannot be written as text.
    """
    return _source(value, set())


def _entries(
    specs: Mapping[str, Any],
    level: int,
    path: Path,
    imports: set[str],
    comments: Mapping[str, str],
) -> Iterator[str]:
    """Yield lines of the entries of a dict of specs, which may have dicts in it."""
    start = "    " * level
    for name, spec in specs.items():
        inner = (*path, name)
        if isinstance(spec, dict):
            yield f"{start}{_source(name, imports)}: {{"
            yield from _entries(spec, level + 1, inner, imports, comments)
            yield f"{start}}},"
            continue
        flat = SEPARATOR.join(inner)
        with errors_of(flat):
            line = f"{start}{_source(name, imports)}: {_source(spec, imports)},"
        yield f"{line}  # {comments[flat]}" if comments.get(flat) else line


def _source(value: Any, imports: set[str]) -> str:
    """Return source of a value. All that is not printable is escaped, as in ``repr``."""
    if isinstance(value, tuple):
        return f"[{', '.join(_source(item, imports) for item in value)}]"
    if isinstance(value, Spec):
        return f"{_class_source(type(value), imports)}({_arguments_source(value, imports)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if not isinstance(value, (str, bytes)):
        return repr(value)
    text = repr(bytes(value) if isinstance(value, bytes) else str(value))  # not NumPy's subclasses
    if text.endswith("'") and '"' not in text:
        text = text.replace("'", '"')  # the two quotes: repr uses others if it contains these
    return text


def _arguments_source(spec: Spec, imports: set[str]) -> str:
    arguments = spec.arguments()
    words: list[str] = []
    is_positional = True
    for position, name in enumerate(parameters_of(type(spec))):
        if name in arguments:
            is_positional = is_positional and position == len(words)
            is_positional = is_positional and (name in _POSITIONAL or isinstance(spec, Partition))
            start = "" if is_positional else f"{name}="
            words.append(start + _source(arguments[name], imports))
    return ", ".join(words)


def _class_source(kind: type[Spec], imports: set[str]) -> str:
    """Return the name of a class in source, which may need an import."""
    name = kind.__name__
    if kind.__module__.partition(".")[0] == _PACKAGE:
        return f"tio.RaggedFeature.{name}" if issubclass(kind, Partition) else f"tio.{name}"
    if kind.__qualname__ != name:
        raise SchemaError(
            f"{with_article(name)} cannot be written as Python: its class must be at the top of a "
            "module"
        )
    imports.add(f"from {kind.__module__} import {name}")
    return name
