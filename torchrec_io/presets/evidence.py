"""Comparison of the features seen in some records with the schema of a preset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._schema.dtypes import stored_dtype
from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._schema.stored_specs import SequenceFeature
from ..inspection.byte_formats import IMAGES
from ..inspection.inference import DTYPES, Finding


def count_of(findings: Mapping[str, Finding], name: str) -> int:
    """Return the number of values of a feature in each record or step; 0 if it varies."""
    found = findings.get(name)
    if found is None or found.counts is None or found.present < found.records:
        return 0
    least, most = found.counts
    return most if least == most else 0


def fits(schema: Schema, inferred: Schema) -> bool:
    """Return whether the schema of a preset reads records with an inferred schema."""
    if schema.is_sequence != inferred.is_sequence:
        return False
    parts = {"context": schema.context, "list": schema.sequence or {}}
    findings = inferred.findings or {}
    return all(
        _fits(spec, part, findings.get(name), count_of(findings, name))
        for part, specs in parts.items()
        for name, spec in specs.items()
    )


def _fits(spec: Any, part: str, found: Finding | None, count: int) -> bool:
    is_optional = isinstance(spec, VarLenFeature) or (
        isinstance(spec, FixedLenFeature) and spec.default_value is not None
    )
    if found is None:
        return is_optional
    if found.where != part:
        return False
    if not isinstance(spec, (VarLenFeature, FixedLenFeature)):
        return found.kind == "bytes" and _fits_bytes(spec, found, count)
    if DTYPES.get(found.kind) != stored_dtype(spec.dtype):
        return False
    if isinstance(spec, VarLenFeature):
        return True
    is_present = is_optional or found.present == found.records
    return is_present and found.counts == (spec.count, spec.count)


def _fits_bytes(spec: Any, found: Finding, count: int) -> bool:
    """Return whether bytes match an image, or a sequence of images or arrays of bytes."""
    is_sequence = isinstance(spec, SequenceFeature)
    # The images of a sequence are in one list, its arrays are in steps.
    if count != 1 and not (is_sequence and found.where == "context"):
        return False
    element = spec.element if is_sequence else spec
    if isinstance(element, ImageFeature):
        return set(found.formats) <= {*IMAGES}
    size = math.prod(element.known_shape)
    return found.extent == (size, size)
