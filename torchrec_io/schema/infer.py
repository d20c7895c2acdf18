"""A schema from data: facts about each feature of some records, and a spec that fits them.

The rules are those of :meth:`torchrec_io.Schema.infer`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from ..checks import check_choice, check_integer, counted
from ..errors import DecodeError, SchemaError
from ..records.sequential import iter_records, iter_valid_records
from ..storage.local import StrPath
from ..storage.opening import find_stamp
from ..storage.paths import expand_paths
from ..storage.remote.options import RemoteOptions, StorageOptions
from .checks import is_text
from .feature import Feature
from .image_spec import ImageFeature
from .inspect import InspectedFeature, Kind, inspect_example, inspect_sequence_example
from .sniff import IMAGES, TENSOR, image_size, sniff
from .specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature

N = TypeVar("N", int, float)

DTYPES: dict[str, str] = {"bytes": "string", "float": "float32", "int64": "int64"}


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


def infer_parts(
    paths: StrPath | Iterable[StrPath],
    max_records: int,
    on_error: Literal["raise", "skip"],
    storage_options: StorageOptions,
) -> tuple[dict[str, dict[str, Feature]], dict[str, Finding]]:
    """Return the parts of a schema that fits the records of files, and all findings."""
    check_choice("on_error", on_error, ("raise", "skip"))
    skip_errors = on_error == "skip"
    remote = RemoteOptions.of(storage_options) or RemoteOptions()
    files = expand_paths(paths, allow_missing=True, remote=remote)  # some records are enough
    sample = sample_records(files, max_records, skip_errors=skip_errors, remote=remote)
    survey = _survey(sample, skip_errors=skip_errors)
    findings = make_findings(survey)
    specs: dict[str, dict[str, Feature]] = {"context": {}, "list": {}}
    for name, finding in findings.items():
        if finding.spec is not None:
            specs[finding.where][name] = finding.spec
    if not any(specs.values()):
        raise SchemaError(_why_nothing(survey.records, findings))
    if not survey.lists:
        return {"features": specs["context"]}, findings
    return {"context": specs["context"], "sequence": specs["list"]}, findings


def _why_nothing(records: int, findings: Mapping[str, Finding]) -> str:
    if not records:
        return "a schema cannot be inferred without records, got none"
    if not findings:
        return (
            f"a schema cannot be inferred: {counted(records, 'record')} inspected, but no features "
            "found; the records may not be Examples"
        )
    name, finding = next(iter(findings.items()))
    shown = repr(name if len(name) < 60 else f"{name[:60]}…")
    more = f", and {len(findings) - 1} more are left out" if len(findings) > 1 else ""
    return f"no feature can be read: {shown} is left out ({finding.why}){more}"


# ---- records to inspect ----


class SampledRecord(NamedTuple):
    """A record and its position.

    Attributes:
        path: Path of the file.
        number: Number of the record in the file.
        offset: Offset of the record's frame in the file.
        data: The record.
    """

    path: str
    number: int
    offset: int
    data: bytes


def sample_records(
    files: list[str],
    max_records: int,
    *,
    skip_errors: bool,
    remote: RemoteOptions | None = None,
) -> Iterator[SampledRecord]:
    """Yield records from the start of each file, about the same number from each.

    Args:
        files: Paths of the files.
        max_records: Maximum number of records.
        skip_errors: Whether to skip damaged records.
        remote: Options for remote objects.

    Raises:
        ValueError: If ``max_records`` is not a positive integer.
    """
    left = check_integer("max_records", max_records, 1)
    order = _ordered(files, max_records, remote)
    for position, path in enumerate(order):
        share = max(1, left // (len(order) - position))
        read = iter_valid_records if skip_errors else iter_records
        records = read(path, remote=remote)
        for number, (offset, data) in enumerate(islice(records, share)):
            yield SampledRecord(path, number, offset, data)
            left -= 1
        if not left:
            return


def _ordered(files: list[str], max_records: int, remote: RemoteOptions | None) -> list[str]:
    """Return files in the order in which they are read.

    Small files come first, so that larger ones make up for the records that they lack. Of more
    files than records, those at equal distances come first; the rest make up for empty ones.
    """
    if len(files) <= max_records:
        return sorted(files, key=lambda path: find_stamp(path, remote).size)
    chosen = [position * len(files) // max_records for position in range(max_records)]
    rest = sorted(set(range(len(files))) - set(chosen))
    return [files[position] for position in (*chosen, *rest)]


# ---- facts about their features ----


class FeatureSummary:
    """Facts about a feature of the records inspected so far; see :class:`Finding`."""

    def __init__(self) -> None:
        self.present = 0
        self.kinds: set[Kind] = set()
        self.counts: tuple[int, int] | None = None
        self.steps: tuple[int, int] | None = None
        self.extent: tuple[float, float] | None = None
        self.formats: Counter[str] = Counter()
        self.are_images_sound = True

    def add(self, feature: InspectedFeature) -> None:
        """Count a feature of a record. A feature without a list counts as missing."""
        if feature.kind != "none":
            self.present += 1
            self._add_values(feature)

    def add_list(self, steps: list[InspectedFeature]) -> None:
        """Count a feature list of a record."""
        self.present += 1
        self.steps = _widened(self.steps, len(steps))
        for step in steps:
            self._add_values(step)

    def _add_values(self, feature: InspectedFeature) -> None:
        if feature.kind != "none":
            self.kinds.add(feature.kind)
        self.counts = _widened(self.counts, len(feature.values))
        numbers: list[float] = []
        for value in feature.values:
            if isinstance(value, bytes):
                self._add_bytes(value)
            elif not math.isnan(value):
                numbers.append(value)
        if numbers:
            self.extent = _widened(_widened(self.extent, min(numbers)), max(numbers))

    def _add_bytes(self, value: bytes) -> None:
        self.extent = _widened(self.extent, len(value))
        format_ = sniff(value)
        self.formats[format_] += 1
        is_sound = format_ in IMAGES and _is_sound_image(value)
        self.are_images_sound = self.are_images_sound and is_sound


def _widened(ends: tuple[N, N] | None, value: N) -> tuple[N, N]:
    return (value, value) if ends is None else (min(ends[0], value), max(ends[1], value))


def _is_sound_image(data: bytes) -> bool:
    size = image_size(data)
    return size is not None and size[0] * size[1] <= ImageFeature().max_pixels


class Survey(NamedTuple):
    """Facts about the features of some records.

    Attributes:
        records: Number of records.
        context: Facts about context features, by name, or about the features of Examples.
        lists: Facts about feature lists, by name.
    """

    records: int
    context: dict[str, FeatureSummary]
    lists: dict[str, FeatureSummary]


def _survey(sample: Iterable[SampledRecord], *, skip_errors: bool) -> Survey:
    context: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)
    lists: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)
    records = 0
    first_example: SampledRecord | None = None
    for record in sample:
        parts = inspect_sequence_example(record.data)
        if parts is None:  # an Example may have any bytes in the field of feature lists
            features = inspect_example(record.data)
            if features is None:
                if skip_errors:
                    continue
                raise _error(
                    record,
                    "the record is neither a tf.train.Example nor a tf.train.SequenceExample",
                )
            parts = features, {}
            first_example = first_example or record
        records += 1
        for name, feature in parts[0].items():
            context[name].add(feature)
        for name, steps in parts[1].items():
            lists[name].add_list(steps)
    if lists and first_example is not None and not skip_errors:
        reason = "the record is not a tf.train.SequenceExample, but other records are"
        raise _error(first_example, reason)
    return Survey(records, context, lists)


def _error(record: SampledRecord, reason: str) -> DecodeError:
    return DecodeError(reason, path=record.path, record=record.number, offset=record.offset)


# ---- a spec for each feature ----

# A spec, or None for a feature that is left out, and the reason.
_Verdict: TypeAlias = "tuple[Feature | None, str]"


def make_findings(survey: Survey) -> dict[str, Finding]:
    """Return the finding of each feature, by name."""
    found = {
        name: _find(name, summary, survey.records, "context")
        for name, summary in sorted(survey.context.items())
    }
    for name, summary in sorted(survey.lists.items()):
        finding = _find(name, summary, survey.records, "list")
        other = found.pop(name, None)
        if other is not None:
            finding = _choose(other, finding)
        found[name] = finding
    return found


def _choose(context: Finding, other: Finding) -> Finding:
    """Return the finding to keep of a context feature and a feature list of the same name."""
    if context.spec is None and other.spec is not None:
        return replace(other, why=f"{other.why}; the context feature of this name is left out")
    return replace(context, why=f"{context.why}; the feature list of this name is left out")


def _find(
    name: str, summary: FeatureSummary, records: int, where: Literal["context", "list"]
) -> Finding:
    kind: Kind | Literal["mixed"] = next(iter(summary.kinds), "none")
    if len(summary.kinds) > 1:
        kind = "mixed"
    spec, why = _verdict(name, summary, records, kind, where)
    return Finding(
        where,
        kind,
        summary.present,
        records,
        summary.counts,
        summary.steps,
        None if kind == "mixed" else summary.extent,
        tuple(format_ for format_, _ in summary.formats.most_common()),
        spec,
        why,
    )


def _verdict(name: str, summary: FeatureSummary, records: int, kind: str, where: str) -> _Verdict:
    if not is_text(name):
        return None, "the name is not UTF-8"
    if kind == "none":
        return None, "no record has values for it"
    if kind == "mixed":
        kinds = " and ".join(sorted(summary.kinds))
        return None, f"it has {kinds} values in different records, and a spec reads only one kind"
    if where == "list":
        spec, why = _judge_list(summary, records, DTYPES[kind])
    elif summary.counts == (1, 1) and summary.present == records and _is_image(summary):
        return ImageFeature(), f"every record has one image ({', '.join(summary.formats)})"
    else:
        spec, why = _judge(summary, records, DTYPES[kind])
    return spec, why + _remark(summary)


def _is_image(summary: FeatureSummary) -> bool:
    return bool(summary.formats) and summary.are_images_sound


def _judge(summary: FeatureSummary, records: int, dtype: str) -> _Verdict:
    assert summary.counts is not None
    least, most = summary.counts
    missing = records - summary.present
    if missing:
        return VarLenFeature(dtype), f"{_missing(missing, records)}, and no default is known"
    if most == 0:
        return VarLenFeature(dtype), "it is empty in every record"
    if least < most:
        return VarLenFeature(dtype), f"records have from {least:,} to {counted(most, 'value')}"
    return FixedLenFeature(_shape(most), dtype), f"every record has {counted(most, 'value')}"


def _judge_list(summary: FeatureSummary, records: int, dtype: str) -> _Verdict:
    assert summary.counts is not None
    least, most = summary.counts
    if most == 0:
        return VarLenFeature(dtype), "every step is empty"
    if least < most:
        return VarLenFeature(dtype), f"steps have from {least:,} to {counted(most, 'value')}"
    missing = records - summary.present
    why = f"every step has {counted(most, 'value')}"
    if missing:
        why += f", and {_missing(missing, records)}"
    return FixedLenSequenceFeature(_shape(most), dtype, allow_missing=missing > 0), why


def _shape(count: int) -> list[int]:
    return [] if count == 1 else [count]


def _remark(summary: FeatureSummary) -> str:
    """Return further facts about a feature that is read as it is stored."""
    if summary.kinds == {"int64"} and summary.extent is not None and {*summary.extent} <= {0, 1}:
        return '; all values are 0 or 1, which the dtype "bool" can also read'
    formats = set(summary.formats)
    if formats == {TENSOR}:
        return "; the values look like serialized tensors, which SerializedTensorFeature decodes"
    return _remark_on_images(summary) if formats & {*IMAGES} else ""


def _remark_on_images(summary: FeatureSummary) -> str:
    if not set(summary.formats) <= {*IMAGES}:
        return "; only some of the values are images, so all stay bytes"
    if not summary.are_images_sound:
        return "; some of the images are damaged or too large, so all stay bytes"
    if summary.steps is not None:
        return "; images in a feature list stay bytes"
    return "; ImageFeature needs one image in every record, so the images stay bytes"


def _missing(count: int, records: int) -> str:
    verb = "lacks" if count == 1 else "lack"
    return f"{count:,} of {counted(records, 'record')} {verb} it"
