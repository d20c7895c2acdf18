"""What datasets of indexed files share: splits, other options, the way that records are read."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..episodes.order import EpisodeBlocks, StepOrder
from ..episodes.reader import StepReader
from ..episodes.stepping import Stepping
from ..errors import TorchRecIOError
from ..order.length_batches import BatchedOrder
from ..order.orders import Blocks, RecordOrder, StreamedOrder, files_fingerprint
from ..order.selection import Selection, Span
from ..order.shuffle import Shuffle, ShuffleChoice, check_shuffle
from ..order.split import parse_slice, split_groups, split_indexed
from ..records.block_reader import BlockReader
from ..records.formats import RecordFormat
from ..records.index_cache import IndexChoice, open_indexes
from ..records.record_reader import RecordReader
from ..storage.compression import CompressionChoice
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from .base import RecordDataset
from .length_batching import LengthKey, batched_by_length, check_too_long, check_unbatched
from .options import LoadOptions
from .record_loader import RecordSource

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("torchrec_io")

# Records that are read at once to find their groups.
_GROUPED_AT_ONCE = 256


class IndexedDataset(RecordDataset):
    """What the datasets of indexed files share: TFRecord files, and all others.

    Attributes:
        paths: The files.
    """

    paths: list[str]
    _by_length = False  # whether batches by length may be asked for
    _length_key: LengthKey = None
    _steps: Stepping | None = None

    def _open(
        self,
        paths: StrPath | Iterable[StrPath],
        record_format: RecordFormat,
        schema: Any,
        options: LoadOptions,
        *,
        split: str | None,
        shuffle: ShuffleChoice,
        seed: int,
        index: IndexChoice = "auto",
        compression: CompressionChoice = "auto",
    ) -> None:
        """Does what the constructor of a dataset of other files than TFRecord's has to do."""
        check_shuffle(shuffle)
        self.paths = expand_paths(paths, tfrecord_names=False)
        if index is None:
            raise ValueError(
                "index must be 'auto', a path or a list of paths, not None: only TFRecord files "
                "can be read without one"
            )
        indexes, errors = open_indexes(self.paths, index, compression, record_format)
        reader = RecordReader(indexes)
        self._set_up(reader, errors, schema, options, split=split, shuffle=shuffle, seed=seed)

    def _set_up(
        self,
        reader: RecordReader,
        errors: list[TorchRecIOError],
        schema: Any,
        options: LoadOptions,
        *,
        split: str | Selection | None,
        shuffle: ShuffleChoice,
        seed: int,
        length_key: LengthKey = None,
        described: str = "",
    ) -> None:
        """Makes the dataset one of a reader's records.

        Args:
            reader: Reads them.
            errors: What was wrong with the files.
            schema: As the user gave it.
            options: How records are given.
            split: A slice of the records, or which of them.
            shuffle: Of the order.
            seed: Of the shuffle.
            length_key: What the length of a record is.
            described: What else than their sizes tells the files from others, and does not change
                with the machine.
        """
        selection: Selection = Span(0, len(reader), len(reader))
        if split is not None:
            selection = parse_slice(split, len(reader)) if isinstance(split, str) else split
        files = files_fingerprint([index.identity for index in reader.indexes])
        if described:
            files = f"{described} {files}"
        order = RecordOrder(selection, shuffle, seed, files)
        source = self._source_of(reader, schema)
        batched = batched_by_length(order, source, options, length_key)
        RecordDataset.__init__(self, source, batched, options)
        self._prepared(errors, length_key)

    def _source_of(self, reader: RecordReader, schema: Any) -> RecordSource:
        """What reads records and decodes them by a schema, of the kinds that the dataset takes."""
        if self._steps is not None:
            return self._steps.source(reader, schema)
        return RecordSource(reader, schema)

    def replace(self, **options: Any) -> Self:
        """The same records with other options, such as ``shuffle`` or ``batch_size``.

        Takes ``schema`` and the keyword arguments of the constructor but those about the files and
        how they are read (``split``, ``index``, ``compression`` and so on). The epoch, the place
        and the count of skipped records start anew.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is none of the choices.
        """
        order = self._own_order
        assert isinstance(order, RecordOrder)
        order = dataclasses.replace(
            order,
            shuffle=options.pop("shuffle", order.shuffle),
            seed=options.pop("seed", order.seed),
        )
        schema = options.pop("schema", self._source.given_schema)
        length_key = options.pop("length_key", self._length_key)
        load_options = self._shares.options.replace(**options)
        return self._with_order(order, schema, load_options, length_key)

    def split(
        self,
        *fractions: float,
        seed: int = 0,
        group_by: Callable[[Any], Hashable] | None = None,
    ) -> list[Self]:
        """Parts of the dataset, drawn at random: disjoint, and together all of it.

        ``train, validation, test = ds.split(0.8, 0.1, 0.1)``. Nothing is written; the parts read
        the same files. A record's part depends on the seed, the fractions and the names and content
        of the files, not on the order they are listed in or where they are. Each part keeps the
        options of the dataset; :meth:`replace` gives it others.

        Args:
            fractions: Of each part; they sum to 1.
            seed: Another one draws other parts. It is not that of the shuffle.
            group_by: Gets each sample (bytes without a schema) and gives the key of its group:
                bytes, a string, a number, a scalar tensor or a tuple of those. Groups stay whole,
                so the parts come as near to the fractions as that allows. Reads the whole dataset
                once. Records left out by ``on_error`` are in no part.

        Returns:
            A dataset for each fraction. One of too few records is empty, which is logged.

        Raises:
            ValueError: the fractions do not sum to 1, or there is no index.
            TypeError: a key is of another type.
        """
        order = self._own_order
        if isinstance(order, StreamedOrder):
            raise ValueError("a split needs an index")  # noqa: TRY004  # the argument was wrong
        selection = order.records
        if group_by is None:
            parts = split_indexed(self._records.indexes, selection, fractions, seed)
        else:
            keys = self._group_keys(group_by, selection)
            parts = split_groups(keys, selection, len(self._records), fractions, seed)
        for fraction, part in zip(fractions, parts, strict=True):
            if len(part) == 0:
                logger.warning("a split of %s of %d records is empty", fraction, len(selection))
        return [
            self._with_order(
                order.with_records(part),
                self._source.given_schema,
                self._shares.options,
                self._length_key,
            )
            for part in parts
        ]

    @property
    def _own_order(self) -> RecordOrder | StreamedOrder:
        order = self._shares.order
        if isinstance(order, BatchedOrder):
            return order.whole
        assert isinstance(order, (RecordOrder, StreamedOrder))
        return order

    @property
    def _records(self) -> RecordReader:
        reader = self._source.reader
        if isinstance(reader, StepReader):
            reader = reader.reader
        if isinstance(reader, BlockReader):
            reader = reader.reader
        assert isinstance(reader, RecordReader)
        return reader

    def _with_order(
        self,
        order: RecordOrder,
        schema: Any,
        options: LoadOptions,
        length_key: LengthKey,
    ) -> Self:
        if not self._by_length:
            check_unbatched(options, length_key, "a dataset of other files than TFRecord's")
        if self._steps is not None:
            check_unbatched(options, length_key, "a dataset of steps")
        before = self._shares.order
        known = before.lengths if isinstance(before, BatchedOrder) else None
        source = self._source_of(self._records, schema)
        batched = batched_by_length(order, source, options, length_key, known)
        other = self._copy(source, batched, options)
        return other._prepared([], length_key)  # noqa: SLF001  # of this class

    def _prepared(self, errors: list[TorchRecIOError], length_key: LengthKey) -> Self:
        """Makes ready to read in the dataset's order; tells what was wrong with the files."""
        self._iteration.handle(errors, 0)
        self._length_key = length_key
        order, options, reader = self._shares.order, self._shares.options, self._records
        if isinstance(order, BatchedOrder):
            self._iteration.handle(check_too_long(order, reader, options), 0)
            self._source.reader = _reader_for(reader, order.order, order.window)
            if not isinstance(length_key, str):
                self._length_key = order.lengths if length_key is not None else None
        else:
            assert isinstance(order, RecordOrder)
            fitting = _reader_for(reader, order, options.batch_size or 1)
            self._source.reader = fitting if self._steps is None else self._steps.reader(fitting)
        return self

    def _group_keys(
        self, group_by: Callable[[Any], Hashable], selection: Selection
    ) -> list[bytes | None]:
        keys: list[bytes | None] = [None] * len(selection)
        source = self._source
        if self._steps is not None:  # groups are of whole records
            source = RecordSource(self._records, source.given_schema)
        self._records.begin_epoch()
        for begin in range(0, len(selection), _GROUPED_AT_ONCE):
            end = min(begin + _GROUPED_AT_ONCE, len(selection))
            numbers = selection.numbers_at(np.arange(begin, end, dtype=np.int64))
            loaded = source.read(source.reader.plan(numbers))
            self._iteration.handle(loaded.errors, 0)
            places = selection.positions_of(loaded.numbers).tolist()
            for place, sample in zip(places, loaded.samples(), strict=True):
                keys[place] = _key_bytes(group_by(sample))
        return keys


def _reader_for(
    reader: RecordReader, order: RecordOrder, at_once: int
) -> RecordReader | BlockReader:
    """The reader that fits an order: a block shuffle wants whole blocks read at once.

    Args:
        reader: Reads records one by one.
        order: Which record comes when.
        at_once: Records of the order that batches in turn are made of: one, or a window of them.
    """
    if not isinstance(order.shuffle, Shuffle):
        return reader
    most = max(1, len(order))
    size = min(order.shuffle.block, most)
    # The records of two windows are in use at once where one follows the other.
    in_use = max(min(order.shuffle.window, most), min(at_once, most))
    keep = 2 * (in_use // size + 2)
    if isinstance(order, StepOrder):
        # Of each block of steps there may be a record that begins in an earlier one.
        episodes = EpisodeBlocks(order.selection, size, order.numbers)
        return BlockReader(reader, episodes.of, episodes.records, 2 * keep)
    blocks = Blocks(order.selection, size)
    return BlockReader(reader, blocks.of, blocks.numbers, keep)


def _key_bytes(key: Any) -> bytes:
    """The key of a group, the same in every process."""
    if isinstance(key, (torch.Tensor, np.generic, np.ndarray)):
        key = key.tolist()
    if isinstance(key, tuple):
        return b"(" + b",".join(_key_bytes(part) for part in key) + b")"
    if isinstance(key, (int, float)) and key == key // 1:
        key = int(key)  # 1, 1.0 and True are one key to Python
    if not isinstance(key, (bytes, str, int, float)):
        raise TypeError(
            "the key of a group must be bytes, a string, a number, a scalar tensor or a tuple of "
            f"those, not {key!r}"
        )
    return repr(key).encode()
