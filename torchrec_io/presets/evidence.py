"""Features seen in some records, and their comparison with a schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._schema.dtypes import item_bytes, stored_dtype
from .._schema.image_spec import ImageFeature
from .._schema.infer import DTYPES, Finding
from .._schema.schema import Schema
from .._schema.sniff import IMAGES
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._schema.stored_specs import RawFeature, SequenceFeature
from .._storage.location import Location


@dataclass(frozen=True)
class Evidence:
    """Features that were seen in some Examples or SequenceExamples.

    Attributes:
        findings: Finding about each feature, by name.
        is_sequence: Whether the records are SequenceExamples.
        files: Files of the records. Metadata files are in the same directory.
    """

    findings: Mapping[str, Finding]
    is_sequence: bool
    files: tuple[Location, ...]

    def count(self, name: str) -> int:
        """Return the number of values of a feature in each record or step; 0 if it varies."""
        found = self.findings.get(name)
        if found is None or found.counts is None or found.present < found.records:
            return 0
        least, most = found.counts
        return most if least == most else 0

    def fits(self, schema: Schema) -> bool:
        """Return whether the schema of a preset can read the records."""
        if schema.is_sequence != self.is_sequence:
            return False
        parts = {"context": schema.context, "list": schema.sequence or {}}
        return all(
            self._fits(name, spec, part)
            for part, specs in parts.items()
            for name, spec in specs.items()
        )

    def _fits(self, name: str, spec: Any, part: str) -> bool:
        found = self.findings.get(name)
        if found is None:
            return isinstance(spec, VarLenFeature) or (
                isinstance(spec, FixedLenFeature) and spec.default_value is not None
            )
        if found.where != part:
            return False
        if not isinstance(spec, (VarLenFeature, FixedLenFeature)):
            return found.kind == "bytes" and self._fits_bytes(name, found, spec)
        if DTYPES.get(found.kind) != stored_dtype(spec.dtype):
            return False
        if isinstance(spec, VarLenFeature):
            return True
        is_present = spec.default_value is not None or found.present == found.records
        return is_present and found.counts == (spec.count, spec.count)

    def _fits_bytes(self, name: str, found: Finding, spec: Any) -> bool:
        """Return whether bytes match an image, an array, or a sequence of these."""
        element, count = spec, self.count(name)
        if isinstance(spec, SequenceFeature):
            element = spec.element
            wanted = 1 if found.where == "list" else spec.length
            if wanted is not None and count != wanted:
                return False
        elif count != 1:
            return False
        if isinstance(element, ImageFeature):
            return set(found.formats) <= {*IMAGES}
        assert isinstance(element, RawFeature)
        size = item_bytes(element.dtype) * math.prod(
            n for n in element.shape or () if n is not None
        )
        if element.known_shape is None:
            return found.extent is None or not any(end % size for end in found.extent)
        return found.extent == (size, size)
