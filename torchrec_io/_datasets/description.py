"""Descriptions of datasets: files, records, order, options and the part of the rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._order.distributed import rank_source
from .._order.mixture import MixedOrder, MixedRows
from .._order.orders import ENDLESS
from .._schema.feature_mapping import FeatureMapping
from ..checks import counted
from ..display import brief, html_table
from .options import MixOptions, defaults_of, options_of
from .pipeline import Pipeline

if TYPE_CHECKING:
    from .session import Session

# Options that the description shows in another way.
_SHOWN_APART = frozenset({"rank", "world_size", "mesh"})


def describe(name: str, session: Session) -> str:
    """Return a description of a dataset in one line.

    Nothing is read, and no order is computed.

    Args:
        name: Name of the dataset's class.
        session: State of the dataset.
    """
    pipeline = session.pipeline
    parts = [
        *describe_parts(pipeline),
        f"epoch {session.state.clock.epoch}",
        *filter(None, [describe_share(session)]),
    ]
    return f"{name}({', '.join(parts)})"


def describe_in_html(text: str, schema: Any) -> str:
    """Return the description of a dataset with a table of its features."""
    if isinstance(schema, FeatureMapping):
        return schema.to_table(text)
    return html_table(text, (), (), 0)


def describe_parts(pipeline: Pipeline) -> list[str]:
    """Return the files, records, schema and options of a dataset."""
    return [
        _describe_files(pipeline.paths),
        *([describe_records(pipeline.order)] if hasattr(pipeline.order, "__len__") else []),
        _describe_schema(pipeline.loader.parser.schema or pipeline.schema),
        *_about_options(pipeline),
    ]


def describe_share(session: Session) -> str | None:
    """Return the rank with the source of its number; None for a single rank."""
    try:
        partition = session.partition
    except ValueError as error:  # the environment variables of torchrun are not valid
        return f"unknown rank ({error})"
    if partition.world_size == 1:
        return None
    options = partition.options
    source = rank_source(options["rank"], has_mesh=options["mesh"] is not None)
    return f"rank {partition.rank} of {partition.world_size} ({source})"


def _describe_files(paths: Sequence[str]) -> str:
    """Return the name of the file, or the number of files and the first of them."""
    if len(paths) == 1:
        return repr(paths[0])
    return f"{len(paths):,} files, first {paths[0]!r}" if paths else "no files"


def describe_records(order: Any) -> str:
    """Return the number of records, and of how many they are selected."""
    if len(order) == ENDLESS:
        return "endless"
    records = counted(order.total, "record")
    if isinstance(order, MixedRows):
        return f"{counted(len(order), 'packed row')} of {records}"
    if len(order) > order.total:
        return f"{counted(len(order), 'draw')} from {records}"
    return records if len(order) == order.total else f"{len(order):,} of {records}"


def _describe_schema(schema: Any) -> str:
    """Return the kind of item that records become."""
    if schema is None:
        return "bytes"
    if isinstance(schema, list):  # of the datasets of a mixture
        return counted(len(schema), "schema")
    if isinstance(schema, Mapping):
        return counted(len(schema), "feature")
    return f"schema={brief(schema)}"


def _changed_options(options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ from their defaults, as they are written in a call."""
    defaults = defaults_of(options)
    return [
        f"{name}={brief(value)}"
        for name, value in options.items()
        if name not in _SHOWN_APART
        and value is not defaults[name]
        and _differs(value, defaults[name])
    ]


def _about_options(pipeline: Pipeline) -> list[str]:
    order = getattr(pipeline.order, "whole", pipeline.order)  # without batches by length, or rows
    if not isinstance(order, MixedOrder):
        return _changed_options(pipeline.options)
    # The others are those of the first dataset.
    own = {name: pipeline.options[name] for name in options_of(MixOptions)}
    return [order.rule, *_changed_options(own)]


def _differs(value: Any, default: Any) -> bool:
    # An array has no single answer to ==. No default is an array.
    return type(value) is not type(default) or bool(value != default)
