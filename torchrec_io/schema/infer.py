"""A schema from data: what is seen in some records, and what spec that makes of each feature.

The rules are those of :meth:`torchrec_io.Schema.infer`.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from ..errors import DecodeError, SchemaError
from ..records.sequential import iter_records, iter_valid_records
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from .checks import is_text
from .image_spec import ImageFeature
from .inspect import Kind, PeekedFeature, peek, peek_sequence
from .sniff import IMAGES, TENSOR, image_size, look_of
from .specs import Feature, FixedLenFeature, FixedLenSequenceFeature, VarLenFeature

N = TypeVar("N", int, float)

_NEITHER = "the record is neither a tf.train.Example nor a tf.train.SequenceExample"
DTYPES: dict[str, str] = {"bytes": "string", "float": "float32", "int64": "int64"}


@dataclass(frozen=True)
class Finding:
    """What was seen of a feature, and what spec it has for that.

    Attributes:
        where: "context", as are all features of an Example, or "list" for a feature list.
        kind: What its values are stored as; "mixed" if that differs, "none" if it has no values of
            any kind.
        present: Records that have it. A feature without a list of values does not count.
        records: Records looked at.
        counts: Least and greatest number of values, where present; in a feature list, of a step.
        steps: Least and greatest number of steps of a feature list, where present.
        extent: Least and greatest number in it; for bytes, length of its shortest and longest
            value. None if it has no value, or several kinds of them.
        looks: What its bytes look like, the most frequent first: "JPEG", "PNG", "UTF-8 text",
            "serialized tensor", "bytes" and so on.
        spec: The spec; None if the feature is left out.
        why: Why it has that spec or is left out, as a sentence.
    """

    where: Literal["context", "list"]
    kind: Kind | Literal["mixed"]
    present: int
    records: int
    counts: tuple[int, int] | None
    steps: tuple[int, int] | None
    extent: tuple[float, float] | None
    looks: tuple[str, ...]
    spec: Feature | None
    why: str


def infer_parts(
    paths: StrPath | Iterable[StrPath], max_records: int, on_error: Literal["raise", "skip"]
) -> tuple[dict[str, dict[str, Feature]], dict[str, Finding]]:
    """The context, and for SequenceExamples the sequence, of a schema; and all findings."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
    skips = on_error == "skip"
    survey = _survey(sample_records(expand_paths(paths), max_records, skips), skips)
    findings = find_all(survey)
    parts: dict[str, dict[str, Feature]] = {"context": {}}
    if survey.lists:
        parts["sequence"] = {}
    for name, finding in findings.items():
        if finding.spec is not None:
            parts["context" if finding.where == "context" else "sequence"][name] = finding.spec
    if not any(parts.values()):
        raise SchemaError(_why_nothing(survey.records, findings))
    return parts, findings


def _why_nothing(records: int, findings: Mapping[str, Finding]) -> str:
    if not records:
        return "there is no record to infer a schema from"
    if not findings:
        return f"no features in the {_records(records)} looked at: are they Examples at all?"
    name, finding = next(iter(findings.items()))
    shown = repr(name if len(name) < 60 else f"{name[:60]}…")
    more = f", and {len(findings) - 1} more are left out" if len(findings) > 1 else ""
    return f"no feature can be read: {shown} is left out ({finding.why}){more}"


# ---- which records ----


class SampledRecord(NamedTuple):
    """A record, and where it is: its file, its number in that, and the offset of its frame."""

    path: str
    number: int
    offset: int
    data: bytes


def sample_records(files: list[str], most: int, skips: bool) -> Iterator[SampledRecord]:
    """Records from the start of each file; every file has the same share of what is left.

    Raises:
        ValueError: ``most`` is no whole number from 1.
    """
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise ValueError(f"max_records must be a whole number from 1, not {most!r}")
    left = most
    order = _in_order(files, most)
    for place, path in enumerate(order):
        share = max(1, left // (len(order) - place))
        records = iter_valid_records(path) if skips else iter_records(path)
        for number, (offset, data) in enumerate(islice(records, share)):
            yield SampledRecord(path, number, offset, data)
            left -= 1
        if not left:
            return


def _in_order(files: list[str], most: int) -> list[str]:
    """Small files first, so that the others get what these do not have.

    Of too many files, first those that lie evenly among all; the rest take the places of empty
    ones.
    """
    if len(files) <= most:
        return sorted(files, key=os.path.getsize)
    chosen = [place * len(files) // most for place in range(most)]
    rest = sorted(set(range(len(files))) - set(chosen))
    return [files[place] for place in (*chosen, *rest)]


# ---- what is in them ----


class Seen:
    """What was seen so far of a feature."""

    def __init__(self) -> None:
        self.present = 0
        self.kinds: set[Kind] = set()
        self.counts: tuple[int, int] | None = None
        self.steps: tuple[int, int] | None = None
        self.extent: tuple[float, float] | None = None
        self.looks: Counter[str] = Counter()
        self.all_images = True

    def add(self, feature: PeekedFeature) -> None:
        """Counts a feature of a record. One without a list is as good as missing."""
        if feature.kind != "none":
            self.present += 1
            self._add_values(feature)

    def add_list(self, steps: list[PeekedFeature]) -> None:
        """Counts a feature list of a record."""
        self.present += 1
        self.steps = _widened(self.steps, len(steps))
        for step in steps:
            self._add_values(step)

    def _add_values(self, feature: PeekedFeature) -> None:
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
        look = look_of(value)
        self.looks[look] += 1
        self.all_images = self.all_images and look in IMAGES and _is_sound_image(value)


def _widened(ends: tuple[N, N] | None, value: N) -> tuple[N, N]:
    return (value, value) if ends is None else (min(ends[0], value), max(ends[1], value))


def _is_sound_image(data: bytes) -> bool:
    size = image_size(data)
    return size is not None and size[0] * size[1] <= ImageFeature().max_pixels


class Survey(NamedTuple):
    """What was seen in so many records."""

    records: int
    context: dict[str, Seen]
    lists: dict[str, Seen]


def _survey(sample: Iterable[SampledRecord], skips: bool) -> Survey:
    context: defaultdict[str, Seen] = defaultdict(Seen)
    lists: defaultdict[str, Seen] = defaultdict(Seen)
    records = 0
    no_sequence: SampledRecord | None = None
    for record in sample:
        parts = peek_sequence(record.data)
        if parts is None:  # what stands where an Example has nothing may be anything
            features = peek(record.data)
            if features is None:
                if skips:
                    continue
                raise _wrong(record, _NEITHER)
            parts = features, {}
            no_sequence = no_sequence or record
        records += 1
        for name, feature in parts[0].items():
            context[name].add(feature)
        for name, steps in parts[1].items():
            lists[name].add_list(steps)
    if lists and no_sequence is not None and not skips:
        raise _wrong(no_sequence, "the record is no tf.train.SequenceExample, as others are")
    return Survey(records, context, lists)


def _wrong(record: SampledRecord, reason: str) -> DecodeError:
    return DecodeError(reason, path=record.path, record=record.number, offset=record.offset)


# ---- what that makes of them ----

_Verdict: TypeAlias = "tuple[Feature | None, str]"


def find_all(survey: Survey) -> dict[str, Finding]:
    """What that makes of each feature, by name."""
    found = {
        name: _find(name, seen, survey.records, "context")
        for name, seen in sorted(survey.context.items())
    }
    for name, seen in sorted(survey.lists.items()):
        finding = _find(name, seen, survey.records, "list")
        other = found.pop(name, None)
        if other is not None:
            finding = _one_of(other, finding)
        found[name] = finding
    return found


def _one_of(context: Finding, other: Finding) -> Finding:
    """The finding that stays of a context feature and a feature list of one name."""
    if context.spec is None and other.spec is not None:
        return replace(other, why=f"{other.why}; the context feature of this name is left out")
    return replace(context, why=f"{context.why}; the feature list of this name is left out")


def _find(name: str, seen: Seen, records: int, where: Literal["context", "list"]) -> Finding:
    kind: Kind | Literal["mixed"] = next(iter(seen.kinds), "none")
    if len(seen.kinds) > 1:
        kind = "mixed"
    judge = _judge if where == "context" else _judge_list
    if not is_text(name):
        spec, why = None, "its name is not UTF-8"
    elif kind == "none":
        spec, why = None, "no record has values of any kind for it"
    elif kind == "mixed":
        kinds = " and ".join(sorted(seen.kinds))
        spec, why = None, f"it holds {kinds} values by turns, and no spec reads more than one kind"
    else:
        spec, why = judge(seen, records, DTYPES[kind])
        why += _remark(seen, spec)
    return Finding(
        where,
        kind,
        seen.present,
        records,
        seen.counts,
        seen.steps,
        None if kind == "mixed" else seen.extent,
        tuple(look for look, _ in seen.looks.most_common()),
        spec,
        why,
    )


def _judge(seen: Seen, records: int, dtype: str) -> _Verdict:
    assert seen.counts is not None
    least, most = seen.counts
    lacking = records - seen.present
    if lacking:
        return VarLenFeature(dtype), f"{_lacking(lacking, records)}, and no default is made up"
    if most == 0:
        return VarLenFeature(dtype), "it is empty in every record"
    if least < most:
        return VarLenFeature(dtype), f"records have from {least:,} to {_values(most)}"
    if most == 1 and seen.looks and seen.all_images:
        return ImageFeature(), "it is one image in every record"
    return FixedLenFeature(_shape(most), dtype), f"every record has {_values(most)}"


def _judge_list(seen: Seen, records: int, dtype: str) -> _Verdict:
    assert seen.counts is not None
    least, most = seen.counts
    if most == 0:
        return VarLenFeature(dtype), "every step is empty"
    if least < most:
        return VarLenFeature(dtype), f"steps have from {least:,} to {_values(most)}"
    lacking = records - seen.present
    why = f"every step has {_values(most)}"
    if lacking:
        why += f", and {_lacking(lacking, records)}"
    return FixedLenSequenceFeature(_shape(most), dtype, allow_missing=lacking > 0), why


def _shape(count: int) -> list[int]:
    return [] if count == 1 else [count]


def _remark(seen: Seen, spec: Feature | None) -> str:
    """What else there is to say of a feature that is read."""
    if isinstance(spec, ImageFeature):
        return f" ({', '.join(seen.looks)})"
    if seen.kinds == {"int64"} and seen.extent is not None and {*seen.extent} <= {0, 1}:
        return '; all values are 0 or 1 and stay int64: the dtype "bool" reads them too'
    if set(seen.looks) == {TENSOR}:
        return "; its bytes look like what SerializedTensorFeature decodes"
    return _remark_on_images(seen) if set(seen.looks) & {*IMAGES} else ""


def _remark_on_images(seen: Seen) -> str:
    if not set(seen.looks) <= {*IMAGES}:
        return "; some of its values are images and some are not, so all stay bytes"
    if not seen.all_images:
        return "; not all of its images are sound and of a size to decode, so all stay bytes"
    if seen.steps is not None:
        return "; images in a feature list stay bytes"
    return "; ImageFeature needs one image in every record, so these stay bytes"


def _values(count: int) -> str:
    return "one value" if count == 1 else f"{count:,} values"


def _lacking(count: int, records: int) -> str:
    return f"{count:,} of {_records(records)} {'lacks' if count == 1 else 'lack'} it"


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count:,} records"
