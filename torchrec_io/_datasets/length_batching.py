"""Batches by length: the lengths that are used, and records that are too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._order.length_batches import LengthBatchedOrder
from .._order.windows import Lengths
from .._parsing.lengths import LengthMeasure, find_lengths
from .._records.record_reader import RecordReader
from .._tensors.block_parser import BlockParser
from ..checks import counted
from ..errors import DecodeError, TorchRecIOError
from .options import LengthKey


def batch_by_length(
    order: Any,
    reader: RecordReader,
    parser: BlockParser,
    options: Mapping[str, Any],
    known: Lengths | None,
) -> tuple[LengthBatchedOrder, Mapping[str, Any], list[TorchRecIOError]]:
    """Return batches of records of similar length; see :meth:`Pipeline.in_units`.

    Args:
        order: Order of the records.
        reader: Reads the records, if their lengths are not known.
        parser: Knows which features may be the length of a record.
        options: ``batch_tokens``, ``batch_size``, ``length_key``, ``drop_last`` and ``on_error``.
        known: Lengths that were found before.

    Raises:
        ValueError: If the options contradict each other, lengths are invalid, or some records are
            too long for any batch and ``on_error`` is ``"raise"``.
    """
    batch_tokens, batch_size = options["batch_tokens"], options["batch_size"]
    if batch_tokens is None and batch_size is None:
        raise ValueError("length_key needs batch_tokens or batch_size")
    if options["drop_last"]:
        raise ValueError(
            "drop_last must be False for batches by length, which have any number of records. To "
            "give all ranks the same number of batches, set uneven='drop' or 'pad'"
        )
    length_key = options["length_key"]
    lengths = _lengths(reader, parser, length_key, known)
    batches = LengthBatchedOrder(order, lengths, batch_tokens, batch_size)
    if length_key is not None and not isinstance(length_key, str):
        options = {**options, "length_key": lengths}
    return batches, options, _too_long_records(batches, reader, options)


def _too_long_records(
    order: LengthBatchedOrder, reader: RecordReader, options: Mapping[str, Any]
) -> list[TorchRecIOError]:
    """Return errors of the records that are too long for any batch."""
    if len(order.too_long) == 0:
        return []
    number = int(order.too_long[0])
    length = int(order.lengths.values[number])
    most = min(order.limits.sizes)
    [place] = reader.locate([number])
    if options["on_error"] == "raise":
        raise ValueError(
            f"{len(order.too_long)} of {counted(len(order.whole), 'record')} are longer than "
            f"batch_tokens={most}. The first one has length {length}: {place.path} "
            f"(record {place.record}). "
            "Increase batch_tokens, or leave them out with on_error='skip'"
        )
    reason = (
        f"{counted(len(order.too_long), 'record')} longer than batch_tokens={most} left out, the "
        f"first one of length {length}"
    )
    return [DecodeError(reason, **place.where)]


def _lengths(
    reader: RecordReader, parser: BlockParser, length_key: LengthKey, known: Lengths | None
) -> Lengths:
    if isinstance(length_key, Lengths):  # those of the dataset that this one is made from
        return length_key
    if length_key is not None and not isinstance(length_key, str):
        return _given_lengths(length_key, len(reader))
    feature = length_feature(parser, length_key, "length_key")
    if known is not None and known.feature == feature:
        return known
    return Lengths(np.maximum(find_lengths(reader, feature), 0), feature)


def _given_lengths(values: Any, count: int) -> Lengths:
    lengths = np.asarray(values)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"length_key must be the name of a feature or integers of shape [{count}], one for "
            f"each record of the files, got {lengths.dtype} {list(lengths.shape)}"
        )
    if len(lengths) and lengths.max() >= 2**62:
        raise ValueError(f"lengths must be less than 2**62, got {lengths.max()}")
    return Lengths(lengths)


def length_feature(parser: BlockParser, name: str | None, option: str) -> LengthMeasure:
    """Return the feature that records have their lengths from.

    Args:
        parser: Parser of the records.
        name: Name of the feature; None for the only one.
        option: Name of the option, for errors.

    Raises:
        ValueError: If there is no such feature.
    """
    features = parser.length_features()
    if name is None and len(features) == 1:
        return next(iter(features.values()))
    if name is not None and name in features:
        return features[name]
    may_be_given = option == "length_key"
    if not features:
        integers = " must be integers, one for each record," if may_be_given else " cannot be found"
        raise ValueError(
            f"{option}{integers} because the schema has no VarLenFeature, RaggedFeature or "
            f"FixedLenSequenceFeature, got {name!r}"
        )
    others = " or integers, one for each record" if may_be_given else ""
    raise ValueError(
        f"{option} must be the name of a VarLenFeature, RaggedFeature or FixedLenSequenceFeature "
        f"of the schema ({', '.join(map(repr, features))}){others}, got {name!r}"
    )
