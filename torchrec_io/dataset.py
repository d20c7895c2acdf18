"""Datasets: records of files as an iterable that PyTorch's DataLoader takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset, get_worker_info

from .errors import DecodeError, StaleIndexError, TorchRecIOError
from .features.parse import ExampleParser, RecordFailure
from .features.schema import Schema
from .features.specs import Feature
from .feed import Feed, Job, Lookahead
from .order.distributed import resolve_rank
from .order.plan import EpochPlan, Uneven
from .order.shuffle import ShuffleChoice
from .records.compressed import CompressionChoice
from .records.index import RecordIndex, find_or_build, logger
from .records.paths import expand_paths
from .records.reader import ReadPlan, RecordBlock, RecordReader
from .records.storage import StrPath
from .tensors.batch import Batch
from .tensors.examples import parse_block

Decoder: TypeAlias = Callable[[bytes], Any]
ErrorPolicy: TypeAlias = "Literal['raise', 'skip'] | Callable[[TorchRecIOError], Any]"
IndexChoice: TypeAlias = "StrPath | Sequence[StrPath]"

_Numbers = npt.NDArray[np.int64]

# Without a batch size, records are still read and parsed this many at once.
_MOST_AT_ONCE = 256
_WORKER_SLOTS = 1024


class _Result(NamedTuple):
    """What became of one batch of record numbers."""

    items: Any  # a Batch, or a list with one item a record
    numbers: _Numbers  # of the records they are of
    block: RecordBlock | None  # these records, if some were lost: else they are not needed again
    errors: list[TorchRecIOError]


class TFRecordDataset(IterableDataset[Any]):
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
        batch_size: ``None``: yield samples, dicts with a schema. A number: yield a :class:`Batch`
            of that many records; a list of as many items without a schema.
        drop_last: Leave out a last batch of fewer records.
        shuffle: ``False``: the order of the files. ``True``: a uniform permutation of all records.
            A number: records move by at most about that many places, which keeps reading local.
        seed: Of the shuffle. With the epoch it defines the order; see :meth:`set_epoch`.
        epochs: How many epochs one iteration goes through; ``None`` is endless.
        rank: This training process, with ``world_size``; by default as ``torch.distributed`` or
            torchrun's environment says, else the only one.
        world_size: How many training processes share the records.
        uneven: What ranks do with records that do not divide: ``"keep"``, ``"drop"`` or ``"pad"``;
            see :class:`torchrec_io.order.plan.EpochPlan`.
        index: ``"auto"``: the index beside each file, else one from the cache, else a new one. A
            path or a list of paths: the index file of each data file, ``.tfidx`` or text.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        verify_crc: Check the data of each record. Lengths are always checked.
        on_error: What to do about a damaged record, or one the schema does not fit: ``"raise"``;
            ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a function that
            gets the error, after which the record is left out and its batch filled up from what
            comes next; only the last one of an epoch (and worker) is short. Where a length is
            damaged, the rest of that file is lost and reported as one
            error. An index that turns out to be stale always raises.
        num_threads: Threads that read and parse. 1 is the calling thread; more are background
            threads, which give the same batches in the same order. By default 2, and 1 in
            DataLoader workers.
        prefetch: Batches that background threads are ahead.
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is ``"path:offset"``.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        CorruptRecordError, TruncatedFileError: indexing met damage and ``on_error`` is ``"raise"``.
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema contradicts itself.
        ValueError: another argument is not one of the above.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: Schema | Mapping[str, Feature] | Decoder | None = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        shuffle: ShuffleChoice = False,
        seed: int = 0,
        epochs: int | None = 1,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "keep",
        index: IndexChoice = "auto",
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
        on_error: ErrorPolicy = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        with_key: bool = False,
    ) -> None:
        super().__init__()
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a function, not {on_error!r}")
        _check_least("epochs", epochs, 0)
        _check_least("batch_size", batch_size, 1)
        _check_least("num_threads", num_threads, 1)
        _check_least("prefetch", prefetch, 1)
        if drop_last and batch_size is None:
            raise ValueError("drop_last needs a batch_size")
        resolve_rank(rank, world_size)
        self.paths = expand_paths(paths)
        self.batch_size = batch_size
        self.epochs = epochs
        self.num_threads = num_threads
        self.prefetch = prefetch
        self.with_key = with_key
        self._on_error = on_error
        self._given_rank = (rank, world_size)
        # One int64 a slot, in memory that workers share: the epoch, then each worker's skip count.
        self._shared = torch.zeros(1 + _WORKER_SLOTS, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]
        # All that the order depends on; checks its own arguments.
        self._plan = EpochPlan(
            0, batch_size or 1, shuffle, seed, drop_last=drop_last, uneven=uneven
        )
        self._decoder, self._parser = _as_decoder(schema)
        indexes = self._open_indexes(index, compression)
        self._reader = RecordReader(indexes, verify_crc=verify_crc)

    # ---- what users ask ----

    @property
    def num_records(self) -> int:
        """Records in all files, for all ranks together."""
        return len(self._reader)

    @property
    def schema(self) -> Schema | None:
        """The schema records are parsed by, if there is one."""
        return None if self._parser is None else self._parser.schema

    @property
    def skipped(self) -> int:
        """Damages left out so far because of ``on_error``, in this process and in its workers."""
        return int(self._shared[1:].sum())

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that the next iteration starts with; another one is another shuffle.

        Reaches running workers too (``persistent_workers=True``).
        """
        _check_least("epoch", epoch, 0)
        self._shared[0] = epoch

    def __len__(self) -> int:
        """Batches, or samples without a batch size, that this rank sees in one iteration.

        Raises:
            TypeError: ``epochs`` is None, so there is no end.
        """
        if self.epochs is None:
            raise TypeError("an endless dataset has no length")
        plan = self._plan_for(0, 0, 1)
        per_epoch = plan.num_rank_records if self.batch_size is None else plan.num_rank_batches
        return per_epoch * self.epochs

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        threads = self.num_threads
        if threads is None:
            threads = 2 if worker is None else 1
        return self._iterate(int(self._shared[0]), number, workers, threads)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask torch.distributed; the parent can.
        return {**self.__dict__, "_given_rank": resolve_rank(*self._given_rank)}

    # ---- opening ----

    def _open_indexes(
        self, index: IndexChoice, compression: CompressionChoice
    ) -> list[RecordIndex]:
        if index is None:
            raise ValueError("index must be 'auto', a path or a list of paths, not None")
        if index != "auto":
            return _load_indexes(self.paths, index)
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            found = list(pool.map(lambda path: find_or_build(path, compression), self.paths))
        self._handle([error for _, error in found if error is not None], 0)
        return [built for built, _ in found]

    # ---- iterating ----

    def _plan_for(self, epoch: int, worker: int, workers: int) -> EpochPlan:
        rank, world_size = resolve_rank(*self._given_rank)
        batch_size = self.batch_size or _chunk_size(self.num_records, world_size * workers)
        return EpochPlan(
            num_records=self.num_records,
            batch_size=batch_size,
            shuffle=self._plan.shuffle,
            seed=self._plan.seed,
            epoch=epoch,
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=workers,
            drop_last=self._plan.drop_last,
            uneven=self._plan.uneven,
        )

    def _all_batches(
        self, first_epoch: int, worker: int, workers: int
    ) -> Iterator[tuple[int, _Numbers]]:
        epoch = first_epoch
        while self.epochs is None or epoch < first_epoch + self.epochs:
            plan = self._plan_for(epoch, worker, workers)
            if worker >= plan.num_rank_batches:
                return  # nothing for this worker, in no epoch
            yield from ((epoch, numbers) for numbers in plan.batches())
            epoch += 1

    def _iterate(self, epoch: int, worker: int, workers: int, threads: int) -> Iterator[Any]:
        batches = self._all_batches(epoch, worker, workers)
        feed = Feed(batches, self._reader.plan, self.batch_size or 1)
        lookahead = Lookahead(self._load, feed, threads, self.prefetch)
        try:
            while (done := lookahead.next()) is not None:
                job, result = done
                self._handle(result.errors, worker)
                if self.batch_size is not None and len(result.numbers) < len(job.numbers):
                    lookahead.recall()
                    result = self._topped_up(result, job, feed, worker)
                yield from self._yielded(result)
        finally:
            lookahead.close()

    def _topped_up(self, short: _Result, job: Job, feed: Feed, worker: int) -> _Result:
        """A batch that lost records, with as many of those that come next."""
        results = [short]
        missing = len(job.numbers) - len(short.numbers)
        while missing and len(numbers := feed.take(job.epoch, missing)):
            more = self._read(self._reader.plan(numbers))
            self._handle(more.errors, worker)
            results.append(more)
            missing -= len(more.numbers)
        if self._parser is not None:
            blocks = [result.block for result in results if result.block is not None]
            items: Any = self._decode(RecordBlock.joined(blocks))[0]
        else:
            items = [item for result in results for item in result.items]
        return _Result(items, np.concatenate([result.numbers for result in results]), None, [])

    def _yielded(self, result: _Result) -> Iterator[Any]:
        count = len(result.numbers)
        if count == 0 or (self._plan.drop_last and count < (self.batch_size or 0)):
            return
        keys = self._reader.keys(result.numbers) if self.with_key else []
        if self.batch_size is not None:
            yield (keys, result.items) if self.with_key else result.items
            return
        samples = result.items.samples() if isinstance(result.items, Batch) else result.items
        yield from zip(keys, samples, strict=True) if self.with_key else samples

    def _load(self, job: Job, following: Job | None) -> _Result:
        """Reads and decodes one batch, while the system reads the next."""
        if following is not None and not following.plan.continues(job.plan):
            # Where a read goes on, the system reads ahead itself.
            self._reader.will_need(following.plan)
        result = self._read(job.plan)
        return result if result.errors else result._replace(block=None)

    def _read(self, plan: ReadPlan) -> _Result:
        block, errors = self._reader.fetch(plan)
        items, block, decode_errors = self._decode(block)
        return _Result(items, block.numbers, block, [*errors, *decode_errors])

    def _decode(self, block: RecordBlock) -> tuple[Any, RecordBlock, Sequence[TorchRecIOError]]:
        """The items of a block, the records they are of, and an error for each of the others."""
        if self._parser is not None:
            batch, failures = parse_block(self._parser, block)
            errors = [
                self._error(block, failure.position, _reason(failure), failure.feature)
                for failure in failures
            ]
            return batch, block.without([failure.position for failure in failures]), errors
        if self._decoder is None:
            return [block[i] for i in range(len(block))], block, []
        return self._decode_each(block, self._decoder)

    def _decode_each(
        self, block: RecordBlock, decoder: Decoder
    ) -> tuple[list[Any], RecordBlock, list[TorchRecIOError]]:
        items: list[Any] = []
        bad: list[int] = []
        errors: list[TorchRecIOError] = []
        for position in range(len(block)):
            try:
                items.append(decoder(block[position]))
            except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                reason = f"the schema function raised {type(error).__name__}: {error}"
                placed = self._error(block, position, reason)
                placed.__cause__ = error
                errors.append(placed)
                bad.append(position)
        return items, block.without(bad), errors

    def _error(
        self, block: RecordBlock, position: int, reason: str, feature: str | None = None
    ) -> DecodeError:
        path, record, offset = self._reader.place(int(block.numbers[position]))
        return DecodeError(reason, path=path, record=record, offset=offset, feature=feature)

    def _handle(self, errors: list[TorchRecIOError], worker: int) -> None:
        for error in errors:
            # A stale index is no damaged record: it would lose all of them, one by one.
            if self._on_error == "raise" or isinstance(error, StaleIndexError):
                raise error
            self._shared[1 + worker % _WORKER_SLOTS] += 1
            if callable(self._on_error):
                self._on_error(error)
            else:
                logger.warning("skipped: %s", error)


def _as_decoder(
    schema: Schema | Mapping[str, Feature] | Decoder | None,
) -> tuple[Decoder | None, ExampleParser | None]:
    if schema is None:
        return None, None
    if isinstance(schema, (Schema, Mapping)):
        return None, ExampleParser.of(Schema.of(schema))
    if callable(schema):
        return schema, None
    raise ValueError(f"schema must be a Schema, a dict, a function or None, not {schema!r}")


def _reason(failure: RecordFailure) -> str:
    if failure.offset is None:
        return failure.reason
    return f"{failure.reason}, at byte {failure.offset} of the record"


def _load_indexes(paths: list[str], index: IndexChoice) -> list[RecordIndex]:
    names = [index] if isinstance(index, (str, os.PathLike)) else list(index)
    if len(names) != len(paths):
        raise ValueError(f"{len(paths)} data files need as many index files, not {len(names)}")
    return [RecordIndex.load(name, path) for name, path in zip(names, paths, strict=True)]


def _check_least(name: str, value: int | None, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _chunk_size(num_records: int, readers: int) -> int:
    """Records that are dealt to a worker at once where there is no batch size.

    A power of two, so that DataLoader's batches of the usual sizes are all full but the last; small
    enough that every worker gets some.
    """
    chunk = _MOST_AT_ONCE
    while chunk > 1 and chunk * readers * 2 > num_records:
        chunk //= 2
    return chunk
