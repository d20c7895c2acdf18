"""Inference of schemas of lists, by the rules of :mod:`torchrec_io.schema.infer`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from ..errors import SchemaError
from ..schema.infer import (
    FeatureSummary,
    Finding,
    SampledRecord,
    Survey,
    make_findings,
    sample_records,
)
from ..schema.inspect import (
    InspectedFeature,
    inspect_example,
    inspect_example_list,
    inspect_sequence_example,
)
from ..schema.specs import FixedLenFeature
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from .schema import Schema


def infer_lists(
    paths: StrPath | Iterable[StrPath],
    max_records: int,
    on_error: Literal["raise", "skip"] = "raise",
) -> Schema | None:
    """Infer a schema of lists, with its findings.

    The records are lists if each of them can be one, if at least one example has a value, and if
    none can be an Example or SequenceExample with a value. (An ExampleListWithContext may be valid
    as a message of these types, but then has no values.) If the context and the examples have a
    feature of the same name, the one of the examples is read.

    Args:
        paths: Files, patterns or directories.
        max_records: Maximum number of records to read.
        on_error: ``"raise"``, or ``"skip"`` to skip damaged records.

    Returns:
        The schema, or None if the records are not lists.

    Raises:
        SchemaError: If no feature of the examples can be read.
    """
    files = expand_paths(paths, allow_missing=True)  # some records are enough
    surveys = _survey(sample_records(files, max_records, skip_errors=on_error == "skip"))
    if surveys is None:
        return None
    contexts, examples = map(make_findings, surveys)
    for name in set(contexts) & set(examples):
        if examples[name].spec is None:
            del examples[name]
        else:
            del contexts[name]
    of_context = {name: found.spec for name, found in contexts.items() if found.spec is not None}
    examples = {name: _in_list(finding) for name, finding in examples.items()}
    of_examples = {name: found.spec for name, found in examples.items() if found.spec is not None}
    if not of_examples:
        raise SchemaError("no feature of the examples can be read")
    return Schema(of_context, of_examples).with_findings({**contexts, **examples})


def _in_list(finding: Finding) -> Finding:
    """Convert a finding about a feature of examples, which were inspected like records."""
    finding = replace(finding, why=finding.why.replace("record", "example"))
    if finding.spec is None or "ranked" in finding.spec.places:
        return finding
    why = f"{finding.why}; in lists images stay bytes"
    return replace(finding, spec=FixedLenFeature([], "string"), why=why)


def _survey(sample: Iterator[SampledRecord]) -> tuple[Survey, Survey] | None:
    """Return the facts about the contexts and the examples of lists; None for other records."""
    records = count = 0
    contexts: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)
    examples: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)
    for record in sample:
        lists = inspect_example_list(record.data)
        if lists is None or _has_values(record.data):
            return None
        records += 1
        count += len(lists.examples)
        _add_features(contexts, lists.context)
        for example in lists.examples:
            _add_features(examples, example)
    if not any(summary.present for summary in examples.values()):
        return None
    return Survey(records, contexts, {}), Survey(count, examples, {})


def _add_features(
    summaries: defaultdict[str, FeatureSummary], features: Mapping[str, InspectedFeature]
) -> None:
    for name, feature in features.items():
        summaries[name].add(feature)


def _has_values(data: bytes) -> bool:
    """Return whether bytes are an Example or SequenceExample with at least one value."""
    context, lists = inspect_sequence_example(data) or (inspect_example(data) or {}, {})
    kinds = [feature.kind for feature in context.values()]
    kinds += [step.kind for steps in lists.values() for step in steps]
    return any(kind != "none" for kind in kinds)
