"""Files of a record format of one's own."""

from __future__ import annotations

from collections.abc import Iterable

from ..order.plan import Uneven
from ..order.shuffle import ShuffleChoice
from ..records.formats import RecordFormat
from ..records.index_cache import IndexChoice
from ..storage.compression import CompressionChoice
from ..storage.local import StrPath
from .indexed import IndexedDataset
from .options import ErrorPolicy, LoadOptions
from .record_loader import SchemaLike


class RecordFileDataset(IndexedDataset):
    """Records of files of any format that you describe, in an order that can be repeated.

    All else is as for :class:`TFRecordDataset`: an index is built once, by asking the format where
    records are, and kept in the user's cache directory.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in
            it but hidden ones and indexes, sorted.
        format: How files split into records; see :class:`RecordFormat` and docs/formats.md.
        schema: A :class:`Schema` or a dict of features: records are ``tf.train.Example`` messages,
            or ``SequenceExample`` for a ``Schema(context=..., sequence=...)``, and are parsed. A
            callable: it gets each record's bytes, in the loading process. ``None``: bytes.
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
            path or a list of paths: the index file of each file.
        compression: ``"auto"``: gzip, if a file begins as such a file does; ``None``, ``"gzip"`` or
            ``"zlib"``. A compressed file is decompressed into a temporary file when it is first
            read out of order.
        on_error: What to do about a record that the format or the schema refuses, or a file
            in which no further record is found (which is one error):
            ``"raise"``; ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a
            function that gets the error, after which it is left out, too.
        num_threads: Threads that read and decode; by default 2, and 1 in DataLoader workers.
        prefetch: How many batches background threads are ahead.
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is
            what :meth:`RecordFormat.key` says.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        CorruptRecordError, TruncatedFileError: indexing met damage and ``on_error`` is ``"raise"``.
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema contradicts itself.
        ValueError: the format has no name, or another argument is not one of the above.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        format: RecordFormat,  # noqa: A002  # the word for it
        schema: SchemaLike = None,
        *,
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
        named = isinstance(format, RecordFormat) and isinstance(format.name, str) and format.name
        if not named:
            raise ValueError(f"format must be a RecordFormat that has a name, not {format!r}")
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
            format,
            schema,
            options,
            split=split,
            shuffle=shuffle,
            seed=seed,
            index=index,
            compression=compression,
        )
