"""TFRecord files as an iterable that PyTorch's DataLoader takes."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import torch

from .batching import LengthKey, batched_by_length, check_too_long, check_unbatched
from .errors import TorchRecIOError
from .iterable import RecordDataset
from .options import ErrorPolicy, LoadOptions
from .order.batches import BatchedOrder
from .order.orders import Blocks, RecordOrder, StreamedOrder, files_fingerprint
from .order.plan import Uneven
from .order.shuffle import Shuffle, ShuffleChoice, check_shuffle
from .order.split import parse_slice, split_groups, split_records
from .order.subset import Selection, Span
from .records.blocks import BlockReader
from .records.compressed import CompressionChoice
from .records.finding import IndexChoice, open_indexes
from .records.paths import expand_paths
from .records.reader import RecordReader
from .records.storage import StrPath
from .records.streamed import StreamReader
from .source import Reader, RecordSource, SchemaLike

logger = logging.getLogger("torchrec_io")

# Records that are read at once to find their groups.
_GROUPED_AT_ONCE = 256


class TFRecordDataset(RecordDataset):
    """Records of TFRecord files, decoded by a schema, in an order that can be repeated.

    An index gives every record a number; the order of an epoch is computed from the numbers, the
    seed and the epoch alone, so each record comes exactly once whatever the number of DataLoader
    workers. Missing indexes are built on construction and kept in the user's cache directory.

    ``for batch in DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)`` is
    the fast path: batches are made by native code and cross processes as one buffer. Without
    ``batch_size`` the dataset yields samples, which DataLoader collates as usual.

    Args:
        paths: A file, glob pattern or directory, or several; see
            :func:`torchrec_io.records.paths.expand_paths`.
        schema: A :class:`Schema` or a dict of features: records are ``tf.train.Example`` messages,
            or ``SequenceExample`` for a ``Schema(context=..., sequence=...)``, and are parsed. A
            callable: it gets each record's bytes, in the loading process.
            ``None``: records are given as bytes.
        split: A slice of the records, as TensorFlow Datasets writes it: ``"[:80%]"``,
            ``"[10%:20%]"``, ``"[-100:]"``. For a random split see :meth:`split`.
        batch_size: ``None``: yield samples, dicts with a schema. A number: yield a :class:`Batch`
            of that many records; a list of as many items without a schema.
        batch_tokens: Yield batches of records of similar length, each of as many records as make
            its padded size, their number times the longest, at most this; with ``batch_size`` too,
            of at most that many. See docs/batching.md.
        length_key: What the length of a record is: the name of a ``VarLenFeature``,
            ``RaggedFeature`` or ``FixedLenSequenceFeature`` of the schema, whose values (parts, or
            steps of a feature list) are counted, in one pass over the data whose result is kept in
            the user's cache directory; or integers ``[N]``, one for each record of the files.
            Without it, ``batch_tokens`` takes the only such feature of the schema. With
            ``batch_size`` alone, batches are of that many records of similar length.
        drop_last: Leave out a last batch of fewer records. Not with batches by length.
        shuffle: ``False``: the order of the files. ``True``: a uniform permutation of all records.
            A number: records move by at most about that many places, which keeps reading local. A
            :class:`Shuffle`: whole blocks of records, read at once, are put in random order and
            mixed; for slow storage.
        seed: Of the shuffle. With the epoch it defines the order; see :meth:`set_epoch`.
        epochs: How many epochs one iteration goes through; ``None`` is endless.
        rank: This training process, with ``world_size``; by default as ``torch.distributed`` or
            torchrun's environment says, else the only one.
        world_size: How many training processes share the records.
        uneven: What ranks do with records that do not divide: ``"keep"``, ``"drop"`` or ``"pad"``;
            see :class:`torchrec_io.order.plan.EpochPlan`.
        index: ``"auto"``: the index beside each file, else one from the cache, else a new one. A
            path or a list of paths: the index file of each data file, ``.tfidx`` or text.
            ``None``: read from front to back without one, also from pipes; see docs/streams.md for
            what that cannot do.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        verify_crc: Check the data of each record. Lengths are always checked.
        on_error: What to do about a damaged record, or one the schema does not fit: ``"raise"``;
            ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a function that
            gets the error, after which the record is left out and its batch filled up from what
            comes next; only the last one of an epoch (and worker) is short. Batches by length are
            not filled up. Where a length is damaged, the rest of that file is lost and reported as
            one error, and so are all records longer than ``batch_tokens``, which are left out from
            the start. An index that turns out to be stale always raises.
        num_threads: Threads that read and parse. 1 is the calling thread; more are background
            threads, which give the same batches in the same order. By default 2, and 1 in
            DataLoader workers.
        prefetch: How far background threads are ahead: so many batches, or runs of up to 16 where
            batches are small (together about 1 MiB as stored).
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is ``"path:offset"``.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        CorruptRecordError, TruncatedFileError: indexing met damage and ``on_error`` is ``"raise"``.
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema contradicts itself.
        ValueError: another argument is not one of the above; or a record is longer than
            ``batch_tokens`` and ``on_error`` is ``"raise"``.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        *,
        split: str | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        length_key: LengthKey = None,
        drop_last: bool = False,
        shuffle: ShuffleChoice = False,
        seed: int = 0,
        epochs: int | None = 1,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "keep",
        index: IndexChoice | None = "auto",
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
        on_error: ErrorPolicy = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        with_key: bool = False,
    ) -> None:
        options = LoadOptions(
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            drop_last=drop_last,
            epochs=epochs,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            on_error=on_error,
            num_threads=num_threads,
            prefetch=prefetch,
            with_key=with_key,
        )
        check_shuffle(shuffle)
        self.paths = expand_paths(paths)
        if index is None:
            if split is not None:
                raise ValueError("a split needs an index")
            check_unbatched(options, length_key, "a stream without an index")
            stream = StreamReader(self.paths, compression=compression, verify_crc=verify_crc)
            streamed = _streamed_order(self.paths, shuffle, seed, options)
            super().__init__(RecordSource(stream, schema), streamed, options)
            self._length_key: LengthKey = None
            return
        indexes, errors = open_indexes(self.paths, index, compression)
        reader = RecordReader(indexes, verify_crc=verify_crc)
        selection: Selection = Span(0, len(reader), len(reader))
        if split is not None:
            selection = parse_slice(split, len(reader))
        order = RecordOrder(
            selection, shuffle, seed, files_fingerprint([index.identity for index in indexes])
        )
        source = RecordSource(reader, schema)
        batched = batched_by_length(order, source, options, length_key)
        super().__init__(source, batched, options)
        self._prepared(errors, length_key)

    def replace(self, **options: Any) -> TFRecordDataset:
        """The same records with other options, such as ``shuffle`` or ``batch_size``.

        Takes ``schema`` and the keyword arguments of the constructor but those about the files
        (``split``, ``index``, ``compression`` and ``verify_crc``). The epoch, the place and the
        count of skipped records start anew.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is none of the choices.
        """
        order = self._own_order
        seed = options.pop("seed", order.seed)
        shuffle = options.pop("shuffle", order.shuffle)
        schema = options.pop("schema", self._source.given_schema)
        length_key = options.pop("length_key", self._length_key)
        load_options = self._shares.options.replace(**options)
        if isinstance(order, RecordOrder):
            order = dataclasses.replace(order, shuffle=shuffle, seed=seed)
            return self._with_order(order, schema, load_options, length_key)
        check_unbatched(load_options, length_key, "a stream without an index")
        streamed = _streamed_order(self.paths, shuffle, seed, load_options)
        return self._copy(RecordSource(self._source.reader, schema), streamed, load_options)

    def split(
        self,
        *fractions: float,
        seed: int = 0,
        group_by: Callable[[Any], Hashable] | None = None,
    ) -> list[TFRecordDataset]:
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
        selection = order.selection
        indexes = self._records.indexes
        if group_by is None:
            names = [(os.path.basename(index.data_path), f"{index.identity}") for index in indexes]
            counts = [len(index) for index in indexes]
            parts = split_records(counts, names, selection, fractions, seed)
        else:
            keys = self._group_keys(group_by, selection)
            parts = split_groups(keys, selection, len(self._records), fractions, seed)
        for fraction, part in zip(fractions, parts, strict=True):
            if len(part) == 0:
                logger.warning("a split of %s of %d records is empty", fraction, len(selection))
        return [
            self._with_order(
                dataclasses.replace(order, selection=part),
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
        if isinstance(reader, BlockReader):
            return reader.reader
        assert isinstance(reader, RecordReader)
        return reader

    def _with_order(
        self,
        order: RecordOrder,
        schema: SchemaLike,
        options: LoadOptions,
        length_key: LengthKey,
    ) -> TFRecordDataset:
        before = self._shares.order
        known = before.lengths if isinstance(before, BatchedOrder) else None
        source = RecordSource(self._records, schema)
        batched = batched_by_length(order, source, options, length_key, known)
        other = self._copy(source, batched, options)
        return other._prepared([], length_key)  # noqa: SLF001  # of this class

    def _prepared(self, errors: list[TorchRecIOError], length_key: LengthKey) -> TFRecordDataset:
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
            self._source.reader = _reader_for(reader, order, options.batch_size or 1)
        return self

    def _group_keys(
        self, group_by: Callable[[Any], Hashable], selection: Selection
    ) -> list[bytes | None]:
        keys: list[bytes | None] = [None] * len(selection)
        self._records.begin_epoch()
        for begin in range(0, len(selection), _GROUPED_AT_ONCE):
            end = min(begin + _GROUPED_AT_ONCE, len(selection))
            numbers = selection.numbers_at(np.arange(begin, end, dtype=np.int64))
            loaded = self._source.read(self._source.reader.plan(numbers))
            self._iteration.handle(loaded.errors, 0)
            places = selection.positions_of(loaded.numbers).tolist()
            for place, sample in zip(places, loaded.samples(), strict=True):
                keys[place] = _key_bytes(group_by(sample))
        return keys


def _reader_for(reader: RecordReader, order: RecordOrder, at_once: int) -> Reader:
    """The reader that fits an order: a block shuffle wants whole blocks read at once.

    Args:
        reader: Reads records one by one.
        order: Which record comes when.
        at_once: Records of the order that batches in turn are made of: one, or a window of them.
    """
    if not isinstance(order.shuffle, Shuffle):
        return reader
    most = max(1, len(order))
    blocks = Blocks(order.selection, min(order.shuffle.block, most))
    # The records of two windows are in use at once where one follows the other.
    in_use = max(min(order.shuffle.window, most), min(at_once, most))
    return BlockReader(reader, blocks.of, blocks.numbers, 2 * (in_use // blocks.size + 2))


def _streamed_order(
    paths: list[str], shuffle: ShuffleChoice, seed: int, options: LoadOptions
) -> StreamedOrder:
    check_shuffle(shuffle)
    if isinstance(shuffle, Shuffle) or (isinstance(shuffle, (bool, np.bool_)) and shuffle):
        raise ValueError(
            f"without an index shuffle must be False or a number of records, not {shuffle!r}"
        )
    if options.uneven != "keep":
        raise ValueError(f"without an index uneven must be 'keep', not {options.uneven!r}")
    names = ";".join(os.path.basename(path) for path in paths)
    files = hashlib.blake2b(os.fsencode(names), digest_size=8).hexdigest()
    return StreamedOrder(files, min(int(shuffle), 2**62) or False, seed)


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
