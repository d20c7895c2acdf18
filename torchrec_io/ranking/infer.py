"""A schema of lists of examples from data; the rules are those of :mod:`.infer`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

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
from .schema import ExampleListSchema


def infer_lists(paths: StrPath | Iterable[StrPath], max_records: int) -> ExampleListSchema | None:
    """A schema of lists of examples, with its findings; None if the records are no such lists.

    They are if each one can be, at least one has an example with a value, and none can be an
    Example or SequenceExample with one. An ExampleListWithContext may well be a legal message of
    those kinds, but then it has no values in it. Of a feature of the context and one of the
    examples that have one name the latter is read.

    Raises:
        SchemaError: no feature of the examples can be read.
    """
    files = expand_paths(paths)
    surveys = _survey(sample_records(files, max_records, skip_errors=False))
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
    return ExampleListSchema(of_context, of_examples).with_findings({**contexts, **examples})


def _in_list(finding: Finding) -> Finding:
    """A finding of a feature of examples: they were what is a record otherwise."""
    finding = replace(finding, why=finding.why.replace("record", "example"))
    if finding.spec is None or "ranked" in finding.spec.places:
        return finding
    why = f"{finding.why}; in lists images stay bytes"
    return replace(finding, spec=FixedLenFeature([], "string"), why=why)


def _survey(sample: Iterator[SampledRecord]) -> tuple[Survey, Survey] | None:
    contexts = _Counted()
    examples = _Counted()
    for record in sample:
        lists = inspect_example_list(record.data)
        if lists is None or _has_values(record.data):
            return None
        contexts.add(lists.context)
        for example in lists.examples:
            examples.add(example)
    if not any(seen.present for seen in examples.seen.values()):
        return None
    return contexts.survey(), examples.survey()


class _Counted:
    """What was seen in some Examples."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)

    def add(self, features: Mapping[str, InspectedFeature]) -> None:
        self.count += 1
        for name, feature in features.items():
            self.seen[name].add(feature)

    def survey(self) -> Survey:
        return Survey(self.count, self.seen, {})


def _has_values(data: bytes) -> bool:
    """Whether bytes are an Example or SequenceExample that holds something."""
    context, lists = inspect_sequence_example(data) or (inspect_example(data) or {}, {})
    kinds = [feature.kind for feature in context.values()]
    kinds += [step.kind for steps in lists.values() for step in steps]
    return any(kind != "none" for kind in kinds)
