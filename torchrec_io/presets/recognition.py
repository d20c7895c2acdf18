"""Recognition of the preset that fits some files."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from .._schema.feature import Feature
from .._schema.image_spec import ImageFeature
from .._schema.python_form import to_python
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from ..errors import DecodeError, SchemaError
from ..inspection.record_sample import MaxRecords
from ..ranking.infer import infer_lists
from ..ranking.schema import Schema as ListSchema
from . import datasets
from .evidence import count_of, fits
from .layouts import expand_names, layouts
from .ranking import NUMBERED, ranking_elwc

AnySchema: TypeAlias = Schema | ListSchema

_LABELS = ("relevance", "utility", "label")
_NUMBER = re.compile(NUMBERED.format("([1-9][0-9]{0,4})"))
_SHOWN = 6


@dataclass(frozen=True)
class Preset:
    """A preset that fits some files, with its arguments.

    Attributes:
        name: Name of the function in ``tio.presets``.
        arguments: Python source of its arguments.
        schema: Schema that the preset returns.
        why: Reason why the preset fits.
        unread: Features of the data that the preset does not read.
        absent: Features that the preset reads, but that were not seen in the data. They have their
            defaults.
        comment: Comment on the image in :meth:`to_python`; "" for none.
    """

    name: str
    arguments: str
    schema: AnySchema
    why: str
    unread: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    comment: str = ""

    def __str__(self) -> str:
        return f"tio.presets.{self.name}({self.arguments})"

    def to_python(self) -> str:
        """Return Python source that imports ``tio`` and sets ``schema`` to the schema."""
        lines = ["import torchrec_io as tio", "", *([f"# {self.comment}"] if self.comment else ())]
        for what, names in (("not read", self.unread), ("not in the data", self.absent)):
            lines += [f"# {what}: {name!r}" for name in names]
        return "\n".join([*lines, f"schema = {self}", ""])


def recognize(
    paths: StrPath | Iterable[StrPath],
    max_records: MaxRecords = "auto",
    *,
    storage_options: StorageOptions = None,
) -> Preset | None:
    """Return the preset that fits some files, or None.

    The records are inspected like in :meth:`Schema.infer`. A preset fits only if every inspected
    record has all features that identify its layout, with the right kind and size.

    Args:
        paths: Files, patterns or directories, as for :class:`TFRecordDataset`.
        max_records: Maximum number of records to inspect. Default: as in :meth:`Schema.infer`.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Raises:
        CorruptRecordError: If a file is damaged where it was read.
        TruncatedFileError: If a file is truncated where it was read.
        FileNotFoundError: If a path matches no file.
        ValueError: If there are no paths, or if ``max_records`` is not valid.
    """
    # Some records are enough.
    files = expand_paths(paths, allow_missing=True, storage_options=storage_options)
    try:
        schema = infer_any(files, max_records)
    except (SchemaError, DecodeError):
        return None
    return recognize_schema(schema)


def infer_any(
    files: list[Location], max_records: MaxRecords, on_error: Literal["raise", "skip"] = "raise"
) -> AnySchema:
    """Infer the schema of files of Examples, SequenceExamples or lists of Examples.

    Args:
        files: Files to inspect.
        max_records: Maximum number of records to inspect; see :meth:`Schema.infer`.
        on_error: ``"raise"``, or ``"skip"`` to skip damaged records and records that are not valid.

    Raises:
        SchemaError: If no schema can be inferred; see :meth:`Schema.infer`.
        DecodeError: If a record is not valid; see :meth:`Schema.infer`.
    """
    lists = infer_lists(files, max_records, on_error)
    if lists is not None:
        return ListSchema.of_inferred(lists)
    return Schema.infer(files, max_records, on_error=on_error)


def recognize_schema(schema: AnySchema) -> Preset | None:
    """Return the preset that fits the schema of :func:`infer_any`, or None."""
    if isinstance(schema, ListSchema):
        return _compare(_ranking_preset(schema), schema)
    findings = schema.findings or {}
    for name, table in layouts().items():
        counted = table.get("counts", {})
        counts = {argument: count_of(findings, each) for argument, each in counted.items()}
        if set(table.get("not", ())) & set(findings) or 0 in counts.values():
            continue
        for tried in table.get("tries", [{}]):
            preset = _try(name, table, {**counts, **tried}, schema)
            if preset is not None:
                return _compare(preset, schema)
    return None


def _try(
    name: str, table: Mapping[str, Any], tried: dict[str, Any], inferred: Schema
) -> Preset | None:
    """Return a preset with the arguments to try, if the records have its marks and it fits."""
    found = set(inferred.findings or {})
    only = tried.pop("only", None)
    marks = [*table.get("marks", ()), *tried.pop("marks", ()), *(only or ())]
    function = getattr(datasets, name)
    schema = function(**tried)
    names = tuple(expand_names(marks)) or tuple(schema)
    if not set(names) <= found or (only and set(names) != found) or not fits(schema, inferred):
        return None
    usual = inspect.signature(function).parameters
    comment = ""
    for each in () if tried.get("masks") else schema:  # masks, and their images, keep their sizes
        seen = (inferred.findings or {}).get(each)
        if (
            seen is not None
            and schema[each] == ImageFeature()
            and isinstance(seen.spec, ImageFeature)
        ):
            tried = {"image": seen.spec, **tried}
            comment = f"{to_python(each)}: {seen.comment}" if seen.comment else ""
    arguments = ", ".join(
        f"{each}={to_python(value)}"
        for each, value in tried.items()
        if value != usual[each].default
    )
    why = f"the records have {_list_names(names)}"
    return Preset(name, arguments, function(**tried), why, comment=comment)


def _compare(preset: Preset, schema: AnySchema) -> Preset:
    found = schema.findings or {}
    return replace(
        preset,
        unread=tuple(name for name in found if name not in preset.schema),
        absent=tuple(name for name in preset.schema if name not in found),
    )


def _list_names(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


# ---- lists ----


def _ranking_preset(schema: ListSchema) -> Preset:
    examples = dict(schema.examples)
    label = next((name for name in _LABELS if _is_label(examples.get(name))), None)
    dtype: Any = "int64"
    if label is not None:
        dtype = examples.pop(label).dtype
    numbered = _count_numbered(schema, list(examples))
    arguments = [str(numbered) if numbered else _to_source(examples)]
    arguments += [_to_source(schema.context)] if schema.context else []
    if label != "relevance":
        arguments.append("label=None" if label is None else f'label="{label}"')
    arguments += [] if dtype == "int64" else [f'label_dtype="{dtype}"']
    made = ranking_elwc(numbered or examples, schema.context, label=label, label_dtype=dtype)
    why = "the records are lists of Examples, and some have values"
    return Preset("ranking_elwc", _join_arguments(arguments), made, why)


def _is_label(spec: Feature | None) -> bool:
    return isinstance(spec, FixedLenFeature) and spec.shape == () and spec.dtype != "string"


def _count_numbered(schema: ListSchema, names: list[str]) -> int | None:
    """Return the number of numbered features, or None if examples have others than the label."""
    numbers = [_NUMBER.fullmatch(name) for name in names]
    findings = schema.findings or {}
    are_numbers = all(
        (findings[name].kind, findings[name].counts) == ("float", (1, 1)) for name in names
    )
    if not names or not all(numbers) or not are_numbers:
        return None
    return max(int(number[1]) for number in numbers if number)


def _to_source(features: Mapping[str, Feature]) -> str:
    entries = "".join(
        f"        {to_python(name)}: {to_python(spec)},\n" for name, spec in features.items()
    )
    return f"{{\n{entries}    }}"


def _join_arguments(arguments: list[str]) -> str:
    """Return the arguments of a call, each on its own lines if one of them has several lines."""
    if not any("\n" in argument for argument in arguments):
        return ", ".join(arguments)
    return "".join(f"\n    {argument}," for argument in arguments) + "\n"
