"""Files that are a record each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..order.plan import Uneven
from ..order.shuffle import ShuffleChoice
from ..parsing.wrapping import WholeFileWrapper
from ..records.reader import RecordReader
from ..records.whole_file import WholeFile
from ..schema.schema import Features
from ..storage.local import StrPath
from ..tensors.record_parsers import WrappedParser
from .indexed import IndexedDataset
from .options import ErrorPolicy, LoadOptions
from .record_loader import RecordSource


class WholeFileDataset(IndexedDataset):
    """Files that are a record each, in an order that can be repeated: images in folders, and so on.

    As TensorFlow's ``WholeFileReader`` (2.21) has it: what is in a file is the record, an empty one
    is an empty record, and what is compressed stays so. All else is as for
    :class:`TFRecordDataset`, but that no file is read before it is needed. A file is told from
    others by its name and size; one that was changed since the dataset was made is a
    ``StaleIndexError``.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in
            it but hidden ones and indexes, sorted.
        schema: ``None``: the content of files as bytes. A dict of one feature whose stored value
            the content is: an :class:`ImageFeature`, a :class:`RawFeature` of a shape or
            ``fixed_length``, a :class:`SerializedTensorFeature`, or ``FixedLenFeature([],
            "string")``. A callable: it gets each file's bytes, in the loading process.
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
        on_error: What to do about a file that the schema does not fit:
            ``"raise"``; ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a
            function that gets the error, after which it is left out, too.
        num_threads: Threads that read and decode; by default 2, and 1 in DataLoader workers.
        prefetch: How many batches background threads are ahead.
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is
            the path of a file.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        SchemaError: the schema is not one such feature.
        ValueError: another argument is not one of the above.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: Features | Callable[[bytes], Any] | None = None,
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
            WholeFile(),
            schema,
            options,
            split=split,
            shuffle=shuffle,
            seed=seed,
        )

    def _source_of(self, reader: RecordReader, schema: Any) -> RecordSource:
        if isinstance(schema, Mapping):
            return RecordSource(reader, schema, WrappedParser(WholeFileWrapper(schema)))
        return RecordSource(reader, schema)
