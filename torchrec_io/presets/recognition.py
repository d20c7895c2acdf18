"""Which preset reads some files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..errors import DecodeError, SchemaError
from ..ranking.infer import infer_lists
from ..ranking.schema import ExampleListSchema
from ..schema.feature import Feature
from ..schema.python_form import entries_to_python
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from .evidence import Evidence
from .layouts import layouts_of
from .ranking import NUMBERED, ranking_elwc

AnySchema: TypeAlias = Schema | ExampleListSchema

_LABELS = ("relevance", "utility", "label")
_NUMBER = re.compile(NUMBERED.format("([1-9][0-9]{0,4})"))
_SHOWN = 6


@dataclass(frozen=True)
class Preset:
    """A preset that reads some files, with the arguments that fit them.

    Attributes:
        name: Of the function in ``tio.presets``.
        arguments: Source of its arguments, as they stand in a call.
        schema: What it gives.
        why: What in the data says so.
        unread: Features of the data that the preset does not read.
        absent: Features that the preset reads and the data lacks: they are as by default.
    """

    name: str
    arguments: str
    schema: AnySchema
    why: str
    unread: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"tio.presets.{self.name}({self.arguments})"

    def to_python(self) -> str:
        """Python source that makes the schema: it imports ``tio`` and sets ``schema``."""
        lines = ["import torchrec_io as tio", ""]
        for what, names in (("not read", self.unread), ("not in the data", self.absent)):
            lines += [f"# {what}: {name!r}" for name in names]
        return "\n".join([*lines, f"schema = {self}", ""])


def recognize(paths: StrPath | Iterable[StrPath], max_records: int = 1000) -> Preset | None:
    """The preset whose layout files have, if there is one.

    It looks at the records as :meth:`Schema.infer` does. A preset is only named if all that makes
    its layout is there, in every record that is looked at, of the right kind and size.

    Args:
        paths: As of :class:`TFRecordDataset`: files, patterns or directories.
        max_records: How many records are read, at most.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged where it was read.
        FileNotFoundError: a path stands for no file.
        ValueError: no path at all, or max_records is no whole number from 1.
    """
    files = expand_paths(paths)
    try:
        schema = infer_any(files, max_records)
    except (SchemaError, DecodeError):
        return None
    return recognize_schema(schema, files)


def infer_any(files: list[str], max_records: int) -> AnySchema:
    """A schema that fits the records of files, whether they are lists of examples or not.

    Raises:
        SchemaError, DecodeError: as :meth:`Schema.infer`.
    """
    lists = infer_lists(files, max_records)
    return Schema.infer(files, max_records) if lists is None else lists


def recognize_schema(schema: AnySchema, files: list[str]) -> Preset | None:
    """The preset that fits an inferred schema.

    Args:
        schema: From :func:`infer_any`.
        files: That it is of.
    """
    if isinstance(schema, ExampleListSchema):
        return _compared(_ranking(schema), schema)
    evidence = Evidence(schema.findings or {}, schema.is_sequence, tuple(files))
    for layout in layouts_of(evidence):
        if set(layout.marks) <= set(evidence.findings) and evidence.fits(layout.schema):
            reasons = [f"the records have {_listed(layout.marks)}"]
            reasons += [layout.also] if layout.also else []
            why = ", and ".join(reasons)
            return _compared(Preset(layout.name, layout.arguments, layout.schema, why), schema)
    return None


def _compared(preset: Preset, schema: AnySchema) -> Preset:
    found = schema.findings or {}
    return replace(
        preset,
        unread=tuple(name for name in found if name not in preset.schema),
        absent=tuple(name for name in preset.schema if name not in found),
    )


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


# ---- lists ----


def _ranking(schema: ExampleListSchema) -> Preset:
    examples = dict(schema.examples)
    label = next((name for name in _LABELS if _is_label(examples.get(name))), None)
    dtype = "int64"
    if label is not None:
        dtype = str(examples.pop(label).dtype)
    numbered = _count_numbered(schema, list(examples))
    words = [str(numbered) if numbered else _source(examples)]
    words += [_source(schema.context)] if schema.context else []
    if label != "relevance":
        words.append("label=None" if label is None else f'label="{label}"')
    words += [] if dtype == "int64" else [f'label_dtype="{dtype}"']
    made = ranking_elwc(numbered or examples, schema.context, label=label, label_dtype=dtype)
    why = "the records are lists of Examples, of which some have values"
    return Preset("ranking_elwc", _joined(words), made, why)


def _is_label(spec: Feature | None) -> bool:
    return isinstance(spec, FixedLenFeature) and spec.shape == () and spec.dtype != "string"


def _count_numbered(schema: ExampleListSchema, names: list[str]) -> int | None:
    """How many numbered features there are, if examples have nothing else but the label."""
    numbers = [_NUMBER.fullmatch(name) for name in names]
    findings = schema.findings or {}
    are_numbers = all(
        (findings[name].kind, findings[name].counts) == ("float", (1, 1)) for name in names
    )
    if not names or not all(numbers) or not are_numbers:
        return None
    return max(int(number[1]) for number in numbers if number)


def _source(features: Mapping[str, Feature]) -> str:
    entries = "".join(f"        {entry}\n" for entry in entries_to_python(features))
    return f"{{\n{entries}    }}"


def _joined(words: list[str]) -> str:
    """Arguments of a call: on a line each, if one of them has several."""
    if not any("\n" in word for word in words):
        return ", ".join(words)
    return "".join(f"\n    {word}," for word in words) + "\n"
