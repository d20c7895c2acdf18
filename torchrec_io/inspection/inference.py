"""A schema from data: facts about each feature of some records, and a spec that fits them.

The rules are those of :meth:`torchrec_io.Schema.infer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Literal, NamedTuple, TypeAlias

from .._schema.bounded_json import shown
from .._schema.checks import is_text
from .._schema.dtypes import DTypeName
from .._schema.feature import Feature
from .._schema.image_spec import ImageFeature
from .._schema.specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from ..checks import counted
from ..errors import SchemaError
from .byte_formats import IMAGES, TENSOR
from .features import Kind
from .surveyor import FeatureSummary, Survey

DTYPES: dict[str, DTypeName] = {"bytes": "string", "float": "float32", "int64": "int64"}


class Inspected(NamedTuple):
    """The number of records that a schema was inferred from.

    Attributes:
        records: Number of records inspected.
        total: Number of all records of the files; None if it is unknown.
    """

    records: int
    total: int | None

    @property
    def is_all(self) -> bool:
        """True if all records were inspected."""
        return self.records == self.total

    def __str__(self) -> str:
        if self.total is None:
            return f"{counted(self.records, 'record')} inspected, of an unknown number"
        return f"{self.records:,} of {counted(self.total, 'record')} inspected"

    @property
    def caution(self) -> str:
        """Sentence about a possible difference in other records; "" if all were inspected."""
        if self.is_all:
            return ""
        return "a feature that all inspected records have may still be missing in others"


@dataclass(frozen=True)
class Finding:
    """Facts about a feature of some records, and the spec that fits them.

    Attributes:
        where: "context", also for the features of an Example, or "list" for a feature list.
        kind: Stored kind of its values; "mixed" if records differ in it, "none" if there are no
            values.
        present: Number of records that have the feature. One without a list of values does not
            count.
        records: Number of records inspected.
        counts: Smallest and largest number of values of a record, or of a step of a feature list.
        steps: Smallest and largest number of steps of a feature list.
        extent: Smallest and largest number; for bytes, length of the shortest and the longest
            value. None if there is no value, or if kinds are mixed.
        formats: Formats that its bytes seem to have, the most frequent first: "JPEG", "PNG",
            "UTF-8 text", "serialized tensor", "bytes" and so on.
        spec: The spec; None if the feature is left out.
        why: Reason for the spec or for leaving the feature out, as a sentence.
        total: Number of all records of the files; None if it is unknown. If it is more than
            ``records``, other records may differ.
        comment: Comment on the spec in ``to_python``; "" for none.
    """

    where: Literal["context", "list"]
    kind: Kind | Literal["mixed"]
    present: int
    records: int
    counts: tuple[int, int] | None
    steps: tuple[int, int] | None
    extent: tuple[float, float] | None
    formats: tuple[str, ...]
    spec: Feature | None
    why: str
    total: int | None = None
    comment: str = ""


class InferredParts(NamedTuple):
    """The parts of an inferred schema, and the reasons for them.

    Attributes:
        parts: Specs by name of each part.
        findings: Findings about all features.
        inspected: Number of records inspected.
    """

    parts: dict[str, dict[str, Feature]]
    findings: dict[str, Finding]
    inspected: Inspected


def infer_surveyed(survey: Survey) -> InferredParts:
    """Return the parts of a schema that fits the records of a survey.

    Raises:
        SchemaError: If no feature can be read.
    """
    inspected = Inspected(survey.records, survey.total)
    findings = make_findings(survey, inspected)
    specs: dict[str, dict[str, Feature]] = {"context": {}, "list": {}}
    for name, finding in findings.items():
        if finding.spec is not None:
            specs[finding.where][name] = finding.spec
    if not any(specs.values()):
        raise SchemaError(_why_nothing(survey.records, findings))
    parts = {"features": specs["context"]}
    if survey.lists:
        parts = {"context": specs["context"], "sequence": specs["list"]}
    return InferredParts(parts, findings, inspected)


def _why_nothing(records: int, findings: Mapping[str, Finding]) -> str:
    if not records:
        return "a schema cannot be inferred without records, got none"
    if not findings:
        return (
            f"a schema cannot be inferred: {counted(records, 'record')} inspected, but no features "
            "found; the records may not be Examples"
        )
    name, finding = next(iter(findings.items()))
    reason = f"no feature can be read: {shown(name)} is left out ({finding.why})"
    rest = len(findings) - 1
    return f"{reason}, and {counted(rest, 'other feature')}" if rest else reason


# ---- a spec for each feature ----

# A spec, or None for a feature that is left out, and the reason.
_Verdict: TypeAlias = "tuple[Feature | None, str]"


def make_findings(survey: Survey, inspected: Inspected) -> dict[str, Finding]:
    """Return the finding of each feature, by name."""
    found = {
        name: find_feature(name, summary, inspected)
        for name, summary in sorted(survey.context.items())
    }
    for name, summary in sorted(survey.lists.items()):
        finding = find_feature(name, summary, inspected)
        other = found.pop(name, None)
        if other is not None:
            finding = _choose(other, finding)
        found[name] = finding
    return found


def _choose(context: Finding, other: Finding) -> Finding:
    """Return the finding to keep of a context feature and a feature list of the same name."""
    if context.spec is None and other.spec is not None:
        return without_twin(other, "the context feature")
    return without_twin(context, "the feature list")


def without_twin(finding: Finding, twin: str) -> Finding:
    """Return the finding to keep of two of the same name, with a remark about the other one."""
    note = f"{twin} of this name is left out"
    comment = f"{note}: key= can read it under another name"
    comments = filter(None, (finding.comment, comment))
    return replace(finding, why=f"{finding.why}; {note}", comment="; ".join(comments))


def find_feature(name: str, summary: FeatureSummary, inspected: Inspected) -> Finding:
    """Return the finding about a feature."""
    kind: Kind | Literal["mixed"] = next(iter(summary.kinds), "none")
    kind = "mixed" if len(summary.kinds) > 1 else kind
    spec, why = _verdict(name, summary, inspected, kind)
    is_image = isinstance(spec, ImageFeature)
    return Finding(
        "context" if summary.steps is None else "list",
        kind,
        summary.present,
        inspected.records,
        summary.counts,
        summary.steps,
        summary.extent,
        tuple(format_ for format_, _ in summary.formats),
        spec,
        why,
        inspected.total,
        _sizes_text(summary.image_sizes) if is_image and len(summary.image_sizes) > 1 else "",
    )


def _verdict(name: str, summary: FeatureSummary, inspected: Inspected, kind: str) -> _Verdict:
    if not is_text(name):
        return None, "the name is not UTF-8"
    if kind == "none":
        return None, f"no {_noun(inspected)} has values for it"
    if kind == "mixed":
        kinds = " and ".join(sorted(summary.kinds))
        return None, f"it has {kinds} values in different records, and a spec reads only one kind"
    is_single = summary.counts == (1, 1) and summary.present == inspected.records
    is_image = _are_images(summary) and summary.are_images_valid
    if is_single and is_image and summary.steps is None:
        formats = ", ".join(format_ for format_, _ in summary.formats)
        sizes = _sizes_text(summary.image_sizes)
        why = f"every {_noun(inspected)} has one image ({formats}; {sizes})"
        return ImageFeature(size=_median_size(summary.image_sizes)), why
    spec, why = _judge(summary, inspected, DTYPES[kind])
    return spec, why + _remark(summary)


def _noun(inspected: Inspected) -> str:
    return "record" if inspected.is_all else "inspected record"


def _median_size(sizes: Mapping[tuple[int, int], int]) -> tuple[int, int]:
    """Return the median height and the median width of images, the lower of two."""
    heights, widths = zip(*Counter(sizes).elements(), strict=True)
    return median_low(heights), median_low(widths)


def _sizes_text(sizes: Mapping[tuple[int, int], int]) -> str:
    sides = [side for size in sizes for side in size]
    least, most = min(sides), max(sides)
    if len(sizes) == 1:
        return "size {} x {}".format(*next(iter(sizes)))
    return f"{counted(len(sizes), 'size')}, {least:,} to {most:,}"


def _are_images(summary: FeatureSummary) -> bool:
    return bool(summary.format_counts) and summary.format_counts.keys() <= {*IMAGES}


def _judge(summary: FeatureSummary, inspected: Inspected, dtype: DTypeName) -> _Verdict:
    assert summary.counts is not None
    least, most = summary.counts
    is_list = summary.steps is not None
    unit = "step" if is_list else _noun(inspected)
    missing = _missing(summary, inspected) if summary.present < inspected.records else ""
    if missing and not is_list:
        return VarLenFeature(dtype), f"{missing}, and no default is known"
    if most == 0:
        return VarLenFeature(dtype), f"it is empty in every {unit}"
    if least < most:
        return VarLenFeature(dtype), f"{unit}s have from {least:,} to {counted(most, 'value')}"
    shape = [] if most == 1 else [most]
    why = f"every {unit} has {counted(most, 'value')}"
    if not is_list:
        return FixedLenFeature(shape, dtype), why
    why += f", and {missing}" if missing else ""
    return FixedLenSequenceFeature(shape, dtype, allow_missing=bool(missing)), why


def _remark(summary: FeatureSummary) -> str:
    """Return further facts about a feature that is read as it is stored."""
    if summary.kinds == {"int64"} and summary.extent is not None and {*summary.extent} <= {0, 1}:
        return '; all values are 0 or 1, which the dtype "bool" can also read'
    formats = summary.format_counts.keys()
    if formats == {TENSOR}:
        return "; the values look like serialized tensors, which SerializedTensorFeature decodes"
    if _are_images(summary) and not summary.are_images_valid:
        return "; some of the images are damaged or too large, so all stay bytes"
    if formats & {*IMAGES}:
        return "; ImageFeature needs one image in every record, so the values stay bytes"
    return ""


def _missing(summary: FeatureSummary, inspected: Inspected) -> str:
    count = inspected.records - summary.present
    verb = "lacks" if count == 1 else "lack"
    return f"{count:,} of {counted(inspected.records, _noun(inspected))} {verb} it"
