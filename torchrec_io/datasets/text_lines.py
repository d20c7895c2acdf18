"""Lines of text files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..csv.parser import CsvParser
from ..csv.schema import Schema as CsvSchema
from ..errors import SchemaError
from ..order.plan import Uneven
from ..order.shuffle import ShuffleChoice
from ..records.index_cache import IndexChoice
from ..records.lines import TextLines
from ..records.reader import RecordReader
from ..storage.compressed import CompressionChoice
from ..storage.local import StrPath
from .indexed import IndexedDataset
from .options import ErrorPolicy, LoadOptions
from .record_loader import RecordSource


class TextLineDataset(IndexedDataset):
    r"""Lines of text files, in an order that can be repeated: each line is a record.

    The lines are those of TensorFlow's ``TextLineReader`` (2.21): they end at ``"\n"``, which is
    left out, as is one ``"\r"`` before it; empty lines count; a last line needs no ``"\n"``, and
    is none if nothing is in it. Nothing is decoded: a line is bytes. (TensorFlow's
    ``tf.data.TextLineDataset`` also drops every other ``"\r"``, here those are kept.)

    All else is as for :class:`TFRecordDataset`: an index of where lines start is built once and
    kept in the user's cache directory, so that lines are shuffled, shared and resumed as records.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in
            it but hidden ones and indexes, sorted.
        schema: ``None``: lines as bytes. A :class:`csv.Schema`: its columns. A callable: it gets
            each line's bytes, in the loading process.
        skip_header_lines: So many lines at the front of each file are left out.
        split: A slice of the records, as ``"[:80%]"``; for a random split see :meth:`split`.
        batch_size: ``None``: yield samples. A number: yield a :class:`Batch` of that many records;
            a list of as many items where the schema gives no columns.
        drop_last: Leave out a last batch of fewer records.
        shuffle: ``False``, ``True``, a number or a :class:`Shuffle`; see :class:`TFRecordDataset`.
        seed: Of the shuffle. With the epoch it defines the order.
        epochs: How many epochs one iteration goes through; ``None`` is endless.
        rank: This training process, with ``world_size``; by default found out.
        world_size: How many training processes share the records.
        uneven: What ranks do with records that do not divide: ``"keep"``, ``"drop"``, ``"pad"``.
        index: ``"auto"``: the index beside each file, else one from the cache, else a new one. A
            path or a list of paths: the index file of each file; see docs/formats.md.
        compression: ``"auto"``: gzip, if a file begins as such a file does; ``None``, ``"gzip"`` or
            ``"zlib"``. A compressed file is decompressed into a temporary file when it is first
            read out of order.
        on_error: What to do about a line that the schema does not fit, or a damaged file:
            ``"raise"``; ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a
            function that gets the error, after which it is left out, too.
        num_threads: Threads that read and decode; by default 2, and 1 in DataLoader workers.
        prefetch: How many batches background threads are ahead.
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is
            ``"path:line"``, lines counted from 1 with those skipped.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        CorruptRecordError, TruncatedFileError: a compressed file is damaged and ``on_error`` is
            ``"raise"``.
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema is one of Examples.
        ValueError: another argument is not one of the above.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: CsvSchema | Callable[[bytes], Any] | None = None,
        *,
        skip_header_lines: int = 0,
        split: str | None = None,
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
        on_error: ErrorPolicy = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        with_key: bool = False,
    ) -> None:
        options = LoadOptions(
            batch_size=batch_size,
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
        self._open(
            paths,
            TextLines(skip_header_lines),
            schema,
            options,
            split=split,
            shuffle=shuffle,
            seed=seed,
            index=index,
            compression=compression,
        )

    def _source_of(self, reader: RecordReader, schema: Any) -> RecordSource:
        if isinstance(schema, CsvSchema):
            return RecordSource(reader, schema, CsvParser(schema))
        if schema is not None and not callable(schema):
            raise SchemaError(f"schema must be a csv.Schema, a function or None, got {schema!r}")
        return RecordSource(reader, schema)
