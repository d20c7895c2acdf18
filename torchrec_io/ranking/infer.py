"""Inference of schemas of lists, by the rules of :mod:`torchrec_io.inspection.inference`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from .._records.record_block import RecordBlock
from .._records.scanned_block import raise_at_gaps
from .._schema.specs import FixedLenFeature
from .._storage.location import Location
from ..errors import SchemaError
from ..inspection.inference import Finding, InferredParts, Inspected, make_findings, without_twin
from ..inspection.record_sample import MaxRecords, RecordSample, choose_records
from ..inspection.surveyor import Survey, Surveyor
from .list_block import split_lists


def infer_lists(
    files: Sequence[Location], max_records: MaxRecords, on_error: Literal["raise", "skip"] = "raise"
) -> InferredParts | None:
    """Infer the parts of a schema of lists.

    The records are lists if each of them can be one, if at least one example has a value, and if
    none can be an Example or SequenceExample with a value. (An ExampleListWithContext may be valid
    as a message of these types, but then has no values.) If the context and the examples have a
    feature of the same name, the one of the examples is read.

    Args:
        files: Files to inspect.
        max_records: Maximum number of records to inspect; see :meth:`torchrec_io.Schema.infer`.
        on_error: ``"raise"``, or ``"skip"`` to skip damaged records.

    Returns:
        None if the records are not lists.

    Raises:
        SchemaError: If no feature of the examples can be read.
    """
    sample = choose_records(files, max_records)
    surveys = _survey(sample, on_error)
    if surveys is None:
        return None
    lists, inner = (survey.records for survey in surveys)
    inspected = Inspected(lists, lists if sample.is_all else sample.total)
    contexts = make_findings(surveys[0], inspected)
    examples = make_findings(surveys[1], Inspected(inner, inner if sample.is_all else None))
    twins = []
    for name in set(contexts) & set(examples):
        if examples[name].spec is None:
            del examples[name]
        else:
            del contexts[name]
            twins.append(name)
    of_context = {name: found.spec for name, found in contexts.items() if found.spec is not None}
    examples = {name: _in_list(finding) for name, finding in examples.items()}
    examples |= {name: without_twin(examples[name], "the context feature") for name in twins}
    of_examples = {name: found.spec for name, found in examples.items() if found.spec is not None}
    if not of_examples:
        raise SchemaError("no feature of the examples can be read")
    parts = {"context": of_context, "examples": of_examples}
    return InferredParts(parts, {**contexts, **examples}, inspected)


def _in_list(finding: Finding) -> Finding:
    """Convert a finding about a feature of examples, which were inspected like records."""
    finding = replace(finding, why=finding.why.replace("record", "example"))
    if finding.spec is None or "ranked" in finding.spec.places:
        return finding
    why = f"{finding.why}; in lists images stay bytes"
    return replace(finding, spec=FixedLenFeature([], "string"), why=why, comment="")


def _survey(
    sample: RecordSample, on_error: Literal["raise", "skip"]
) -> tuple[Survey, Survey] | None:
    """Return the facts about the contexts and the examples of lists; None for other records."""
    contexts, examples = Surveyor(with_lists=False), Surveyor(with_lists=False)
    for piece in sample.pieces:
        for found in piece() if on_error == "skip" else raise_at_gaps(piece()):
            block = found.block
            parts, failures = split_lists(block)
            if failures or _have_values(block):
                return None
            if examples.add(parts.examples).rejected or contexts.add(parts.contexts).rejected:
                return None
    survey = examples.result()
    has_values = any(summary.present for summary in survey.context.values())
    return (contexts.result(), survey) if has_values else None


def _have_values(block: RecordBlock) -> bool:
    """Return whether a record is an Example or SequenceExample with at least one value."""
    surveyor = Surveyor()
    surveyor.add(block)
    found = surveyor.result()
    summaries = [*found.context.values(), *found.lists.values()]
    return any(summary.kinds for summary in summaries)
