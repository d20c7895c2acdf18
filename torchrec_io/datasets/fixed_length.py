"""Files of records of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..order.plan import Uneven
from ..order.shuffle import ShuffleChoice
from ..parsing.wrapping import FixedLengthWrapper
from ..records.fixed_length import FixedLength
from ..records.index_cache import IndexChoice
from ..records.reader import RecordReader
from ..schema.schema import Features
from ..storage.compressed import CompressionChoice
from ..storage.local import StrPath
from ..tensors.record_parsers import WrappedParser
from .indexed import IndexedDataset
from .options import ErrorPolicy, LoadOptions
from .record_loader import RecordSource


class FixedLengthRecordDataset(IndexedDataset):
    """Records of as many bytes each, in an order that can be repeated.

    As TensorFlow's ``FixedLengthRecordReader`` (2.21) has it, such as the files of CIFAR-10 and of
    MNIST. All else is as for :class:`TFRecordDataset`.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in
            it but hidden ones and indexes, sorted.
        record_bytes: Of each record.
        schema: ``None``: records as bytes. A dict of a :class:`RawFeature` of a shape for each
            field of a record, in the order stored, which take up all of its bytes: ``{"label":
            tio.RawFeature("uint8", []), "image": tio.RawFeature("uint8", [3, 32, 32])}``. A
            callable: it gets each record's bytes, in the loading process.
        header_bytes: Bytes at the front of each file that are no records.
        footer_bytes: Bytes at the end of each file that are no records.
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
        index: ``"auto"``: found by arithmetic, which is quick, and not kept. A path or a list of
            paths: the index file of each file.
        compression: ``"auto"``: gzip, if a file begins as such a file does; ``None``, ``"gzip"`` or
            ``"zlib"``. Which record a compressed file has is found by decompressing it.
        on_error: What to do about a record that the schema does not fit, or a file that no
            whole number of records fills (which is one error, its whole records are read):
            ``"raise"``; ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a
            function that gets the error, after which it is left out, too.
        num_threads: Threads that read and decode; by default 2, and 1 in DataLoader workers.
        prefetch: How many batches background threads are ahead.
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is
            ``"path:record"``, records of a file counted from 0.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        TruncatedFileError: a file is not filled by whole records and ``on_error`` is ``"raise"``.
            (``FixedLengthRecordReader`` passes over what is left, ``tf.data`` refuses it.)
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema does not fit ``record_bytes``, or holds something else.
        ValueError: another argument is not one of the above.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        record_bytes: int,
        schema: Features | Callable[[bytes], Any] | None = None,
        *,
        header_bytes: int = 0,
        footer_bytes: int = 0,
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
            FixedLength(record_bytes, header_bytes, footer_bytes),
            schema,
            options,
            split=split,
            shuffle=shuffle,
            seed=seed,
            index=index,
            compression=compression,
        )

    def _source_of(self, reader: RecordReader, schema: Any) -> RecordSource:
        if isinstance(schema, Mapping):
            assert isinstance(reader.format, FixedLength)
            fields = FixedLengthWrapper(schema, reader.format.record_bytes)
            return RecordSource(reader, schema, WrappedParser(fields))
        return RecordSource(reader, schema)
