"""Whether, and how, a dataset's records are put into batches by length."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..csv.schema import Schema as CsvSchema
from ..errors import DecodeError, TorchRecIOError
from ..order.length_batches import BatchedOrder, Lengths
from ..order.orders import RecordOrder
from ..parsing.lengths import LengthFeature, find_lengths
from ..ranking.schema import Schema as ListSchema
from ..records.reader import RecordReader
from ..schema.schema import Schema
from .options import LoadOptions
from .record_loader import RecordSource

# The name of a feature; integers, one for each record: an array or a Tensor; or None.
LengthKey: TypeAlias = Any


def check_unbatched(options: LoadOptions, length_key: LengthKey, what: str) -> None:
    """Raises ValueError if batches by length are asked for of what has none."""
    if options.batch_tokens is not None or length_key is not None:
        raise ValueError(f"{what} has no batches by length: no batch_tokens and no length_key")


def batched_by_length(
    order: RecordOrder,
    source: RecordSource,
    options: LoadOptions,
    length_key: LengthKey,
    known: Lengths | None = None,
) -> RecordOrder | BatchedOrder:
    """An order in batches of similar length, if the options say so; else the order itself.

    Args:
        order: Of the records.
        source: Reads them, where their lengths are not known: by a :class:`RecordReader`.
        options: How records are put into batches.
        length_key: See :class:`torchrec_io.TFRecordDataset`.
        known: Lengths that were found before, which may be those that are asked for.

    Raises:
        ValueError: the options do not go together, or lengths are not what they should be.
    """
    if options.batch_tokens is None and length_key is None:
        return order
    if options.batch_tokens is None and options.batch_size is None:
        raise ValueError("length_key needs batch_tokens or a batch_size")
    if options.drop_last:
        raise ValueError(
            "drop_last has no meaning for batches by length: they are as large as their records "
            "allow. For as many batches on each rank there is uneven='drop' or 'pad'"
        )
    lengths = _lengths(source, length_key, known)
    return BatchedOrder(order, lengths, options.batch_tokens, options.batch_size)


def check_too_long(
    order: BatchedOrder, reader: RecordReader, options: LoadOptions
) -> list[TorchRecIOError]:
    """What there is to tell of records that no batch has room for: nothing, or one error for all.

    Raises:
        ValueError: there are some, and ``on_error`` is ``"raise"``.
    """
    if len(order.too_long) == 0:
        return []
    number = int(order.too_long[0])
    length = int(order.lengths.values[number])
    most = order.batch_tokens
    path, record, offset = reader.place(number)
    if options.on_error == "raise":
        raise ValueError(
            f"{len(order.too_long)} of {len(order.whole)} records are longer than "
            f"batch_tokens={most}, the first of them {path} (record {record}), which has length "
            f"{length}: give a larger batch_tokens, or leave them out by on_error='skip'"
        )
    reason = (
        f"{len(order.too_long)} records are longer than batch_tokens={most}, the first of them "
        f"of length {length}: they are left out"
    )
    return [DecodeError(reason, path=path, record=record, offset=offset)]


def _lengths(source: RecordSource, length_key: LengthKey, known: Lengths | None) -> Lengths:
    reader = source.reader
    assert isinstance(reader, RecordReader)
    if isinstance(length_key, Lengths):  # a dataset's own, of which this one is made
        return length_key
    if length_key is not None and not isinstance(length_key, str):
        return _given_lengths(length_key, len(reader))
    schema = source.schema
    assert not isinstance(schema, CsvSchema)  # only of Examples
    feature = _length_feature(schema, length_key)
    if known is not None and known.feature == feature:
        return known
    return Lengths(find_lengths(reader, feature), feature)


def _given_lengths(values: Any, count: int) -> Lengths:
    lengths = np.asarray(values)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"length_key must be the name of a feature or integers of shape [{count}], one for "
            f"each record of the files, not {lengths.dtype} {list(lengths.shape)}"
        )
    if len(lengths) and lengths.max() >= 2**62:
        raise ValueError(f"a length is {lengths.max()}: none may be 2**62 or more")
    return Lengths(lengths)


def _length_feature(schema: Schema | ListSchema | None, name: str | None) -> LengthFeature:
    if schema is None:
        raise ValueError(
            "without a schema the lengths of records are not known: length_key must be integers, "
            f"one for each record, not {name!r}"
        )
    if isinstance(schema, ListSchema):
        raise ValueError(  # noqa: TRY004  # it is length_key that is wrong
            "records that are lists of examples have no feature for their length: length_key must "
            f"be integers, one for each record, not {name!r}"
        )
    features = LengthFeature.all_of(schema)
    if name is None and len(features) == 1:
        return next(iter(features.values()))
    if name not in features:
        raise ValueError(
            "length_key must be the name of a VarLenFeature, RaggedFeature or "
            f"FixedLenSequenceFeature of the schema, of which there are {list(features)}, or "
            f"integers, one for each record; not {name!r}"
        )
    return features[name]
