"""Packed rows: the lengths that are planned with, and the documents that are put into rows."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._order.orders import ENDLESS, PositionOrder
from .._order.pack import Pack
from .._order.packed_rows import PackedOrder, pack_rows
from .._order.selection import Numbers
from .._order.windows import Lengths
from .._parsing.columns.base import LocatedBlock
from .._parsing.failures import Failures, Ints, RecordFailure
from .._parsing.lengths import UNKNOWN, LengthMeasure, find_lengths
from .._parsing.parser import ExampleParser
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._records.record_reader import RecordReader
from .._records.repetitions import own_numbers
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser, ExampleBlockParser
from .._tensors.loaded import Loaded
from .._tensors.native_run import locate_run
from .._tensors.packing import RowLayout, check_columns, count_tokens, made_columns
from .._tensors.parse import image_threads, parse_rows
from ..checks import counted
from ..errors import DecodeError, TorchRecIOError
from ..timing.steps import around_native, parsing
from .length_batching import length_feature
from .record_loader import LoadJob, RecordLoader

_MOST_TOKENS = 2**31 - 2


def pack_documents(
    order: PositionOrder,
    reader: RecordReader,
    parser: BlockParser,
    options: Mapping[str, Any],
    known: Lengths | None,
) -> tuple[PackedOrder, Mapping[str, Any], list[TorchRecIOError]]:
    """Return packed rows, the options with the name of the tokens, and errors; see ``Pipeline``.

    Args:
        order: Order of the documents.
        reader: Reads the documents, if their lengths are not known.
        parser: Knows the columns of the documents.
        options: Options with a ``pack``.
        known: Lengths that were found before.

    Raises:
        ValueError: If the features cannot be packed, or documents are left out of all rows and
            ``on_error`` is ``"raise"``.
    """
    pack: Pack = options["pack"]
    feature = length_feature(parser, pack.key, "key of Pack")
    if pack.key is None:
        [key] = parser.length_features()
        pack = dataclasses.replace(pack, key=key)
    check_columns(RecordLoader(reader, parser).empty_items(), pack)
    if known is None or known.feature != (feature,):
        known = _find_lengths(reader, feature)
    rows = pack_rows(order, known, pack)
    errors = _left_out_documents(rows, reader, options["on_error"])
    return rows, {**options, "pack": pack}, errors


def _find_lengths(reader: RecordReader, feature: LengthMeasure) -> Lengths:
    found = find_lengths(reader, feature)
    if len(found) and found.max() > _MOST_TOKENS:
        number = int(np.argmax(found))
        [place] = reader.locate([number])
        raise ValueError(
            f"a document must have at most {_MOST_TOKENS} tokens, got {found[number]}: "
            f"{place.path} (record {place.record})"
        )
    # A record that cannot be read is planned as one token, so that the error is raised, or counted,
    # where the record comes in the epoch.
    found[found == UNKNOWN] = 1
    # A tuple, because lengths for batches by length count unreadable records otherwise.
    return Lengths(found, (feature,))


def _left_out_documents(
    order: PackedOrder, reader: RecordReader, on_error: Any
) -> list[TorchRecIOError]:
    """Find the documents that are left out of all rows, and return an error for each reason."""
    values, pack = order.lengths.values, order.pack
    found = [(np.flatnonzero(values == 0), "has no tokens", "have no tokens")]
    if pack.mode == "fit" and pack.long == "error":
        most = pack.least_length - pack.extra
        tail = f"more than {most} tokens, the length of a row"
        tail += " less a separator" if pack.extra else ""
        found.append((np.flatnonzero(values > most), f"has {tail}", f"have {tail}"))
    errors = []
    for numbers, one, many in found:
        numbers = numbers[order.record_order.contains(numbers)] if len(numbers) else numbers  # noqa: PLW2901
        if len(numbers):
            errors.append(_left_out(order, reader, numbers, one if len(numbers) == 1 else many))
    if errors and on_error == "raise":
        advice = "Leave such records out with on_error='skip'"
        if len(errors) > 1 or "length of a row" in str(errors[0]):
            advice += ", or split long ones with Pack(long='split')"
        raise ValueError(f"{errors[0]}. {advice}")
    if len(order) == ENDLESS:
        _check_any_fits(order)
    return errors


def _check_any_fits(order: PackedOrder) -> None:
    """Raise ValueError if no document fits in a row: an endless mixture would search forever."""
    values, pack = order.lengths.values, order.pack
    most = values.max() if pack.splits_long else pack.least_length - pack.extra
    if not order.record_order.contains(np.flatnonzero((values > 0) & (values <= most))).any():
        raise ValueError(
            "an endless mixture needs documents with tokens that fit in a row, and has none"
        )


def _left_out(
    order: PackedOrder, reader: RecordReader, numbers: Numbers, what: str
) -> TorchRecIOError:
    [place] = reader.locate(numbers[:1])
    shown = f"{len(numbers):,} of {counted(order.record_order.total, 'record')} {what}"
    if len(numbers) > 1:
        shown += "; this is the first one"
    return DecodeError(shown, **place.where, feature=order.pack.key)


class RowLoader(RecordLoader):
    """A loader that reads documents and puts them into rows. A unit is a row.

    Args:
        reader: Reader of the documents.
        parser: Parser of all features of the documents.
        pack: The options.
        raises: Whether the first error ends the iteration.
    """

    def __init__(self, reader: Reader, parser: BlockParser, pack: Pack, *, raises: bool) -> None:
        super().__init__(reader, parser)
        assert pack.key is not None
        assert isinstance(parser, ExampleBlockParser)  # others have no tokens
        self._pack = pack
        self._packed = (pack.key, *pack.also)
        for name in self._packed:
            if parser.schema[name].normalize is not None:
                raise ValueError(f"the feature {name!r} cannot be packed and normalized")
        # Tokens are decoded when they are written into rows.
        self._locator = ExampleParser(parser.schema, self._packed)
        self._layout = RowLayout(pack, self._locator)
        # All values of a document are checked, also those that other batches have.
        limited = [name for name in self._packed if parser.native.builder(name).limits is not None]
        self._checked = parser.of_features(limited).native if limited else None
        self._raises = raises

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(RowLoader, raises=self._raises)
        return make, (self.reader, self.parser, self._pack)

    def other_columns(self) -> list[str]:
        names = self.empty_items().columns.flat()
        others = (name for name in names if name not in self._packed)
        return [*made_columns(self._pack)[-2:], *others]

    def plan(self, units: Any, random: RecordRandom = DEFAULT_RANDOM) -> Any:
        return self.reader.plan_with(units.numbers, random)

    def load_jobs(self, jobs: Sequence[LoadJob]) -> list[Loaded]:
        batches = [job.units for job in jobs]
        sources = [self._layout.sources(batch) for batch in batches]
        plans, randoms = [job.plan for job in jobs], [job.random for job in jobs]
        with around_native(parsing):
            records = [each.records for each in sources]
            located = locate_run(self._locator, self.reader, plans, randoms, records)
            valid = [*itertools.takewhile(self._is_valid, located)]
            documents = [source.documents for source in sources[: len(valid)]]
            rows = self._layout.make(batches[: len(valid)], valid, documents, self.parser.allocate)
        return [
            Loaded(items, batch.first_numbers(), [])
            for items, batch in zip(rows, batches, strict=False)
        ]

    def load_job(self, job: LoadJob) -> Loaded:
        # Parsing all features finds each error, as it does where rows are not packed. Documents
        # that cannot be put into the rows are lost.
        documents = self.load(job.plan, job.random)
        with parsing():
            return self._rows_of_valid(documents, job.units, job.random)

    def _is_valid(self, located: LocatedBlock) -> bool:
        """Return whether all documents are valid, and their packed values in their range."""
        if located.failures:
            return False
        if self._checked is None:
            return True
        assert isinstance(located.block, RecordBlock)
        return not len(parse_rows(self._checked, located.block, DEFAULT_RANDOM).failures)

    def _rows_of_valid(
        self, documents: Loaded, batch: _core.RowPlan, random: RecordRandom
    ) -> Loaded:
        """Put the valid documents into rows. The result has the errors of the invalid ones.

        Args:
            documents: The documents, with all of their features.
            batch: The rows.
            random: Random number generators of the documents.
        """
        positions = documents.positions_in(batch.numbers)
        found = np.full(len(batch.numbers), -1, np.int64)
        found[positions] = documents.item_rows
        bad, failures = self._find_bad(documents.items, batch.lengths, positions, found[positions])
        found[bad] = -1
        assert documents.block is not None
        source = self._layout.sources(batch, found)
        block = documents.block if source.records is None else documents.block.rows(source.records)
        located = self._locator.locate(block, random, image_threads())
        # All are valid.
        [rows] = self._layout.make([batch], [located], [source.documents], self.parser.allocate)
        lost = np.append(np.flatnonzero(found[batch.documents] < 0), len(batch.documents))
        packed = Loaded(
            rows,
            batch.first_numbers(),
            documents.errors,
            failures=_joined(documents.failures, failures),
            failed=np.concatenate((documents.failed, batch.numbers[bad])),
            valid_items=int(np.searchsorted(batch.row_begins, lost[0], side="right")) - 1,
        )
        return packed if self._raises else self._without_repeats(packed, batch)

    def _without_repeats(self, loaded: Loaded, plan: _core.RowPlan) -> Loaded:
        """Return rows without the errors of documents that began in earlier rows.

        The process that has the first piece of a document reports it.
        """
        numbers = own_numbers(plan.numbers)
        begun = numbers[plan.documents[plan.begins == 0]]
        others = np.setdiff1d(numbers, begun)
        if not len(others):
            return loaded
        kept = np.flatnonzero(~np.isin(own_numbers(loaded.failed), others))
        places = {place[:2] for place in self.reader.locate(others)}
        failures = loaded.failures
        return loaded._replace(
            errors=[each for each in loaded.errors if (each.path, each.record) not in places],
            failures=Failures(failures.positions[kept], lambda index: failures[int(kept[index])]),
            failed=loaded.failed[kept],
        )

    def _find_bad(
        self, documents: Batch, lengths: Ints, positions: Ints, rows: Ints
    ) -> tuple[Ints, list[RecordFailure]]:
        """Return the documents whose values are not as many as planned, and their failures.

        Args:
            documents: The documents.
            lengths: Planned number of tokens of each document.
            positions: Documents that were loaded.
            rows: Row of each of these in ``documents``.
        """
        failures: dict[int, RecordFailure] = {}
        planned = lengths[positions]
        for name in self._packed:
            found = count_tokens(documents, name)[rows]
            for index in np.flatnonzero(found != planned).tolist():
                document = int(positions[index])
                if document not in failures:
                    reason = self._reason(name, int(found[index]), int(planned[index]))
                    failures[document] = RecordFailure(document, name, None, reason)
        return np.array([*failures], np.int64), [*failures.values()]

    def _reason(self, name: str, got: int, planned: int) -> str:
        if name == self._pack.key:
            return (
                f"the record has {counted(got, 'token')}, and {planned:,} when tokens were counted"
            )
        return (
            f"the feature must have one value for each of {counted(planned, 'token')}, got {got:,}"
        )


def _joined(first: Failures, others: list[RecordFailure]) -> Failures:
    if not others:
        return first
    count = len(first)
    positions = np.concatenate((first.positions, [each.position for each in others]))
    return Failures(
        positions, lambda index: first[index] if index < count else others[index - count]
    )
