"""Streams: TFRecord files or pipes that are read from front to back, without an index."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from .._order.orders import StreamOrder
from .._records.reader import Reader
from .._records.stream_reader import StreamReader
from .._storage.digest import digest_text
from .._storage.local import StrPath
from .._storage.paths import expand_paths
from .._tensors.block_parser import Columns, SchemaLike, parser_of_messages
from .base import Item_co, RecordDataset
from .options import (
    StreamOptions,
    StreamOrderReplaceOptions,
    StreamReplaceOptions,
    StreamSampleOptions,
    access_options,
    change_options,
    complete,
    takes_options,
)
from .pipeline import Pipeline
from .record_loader import RecordLoader

if TYPE_CHECKING:
    from .._tensors.batch import Batch
    from .._tensors.sample import Sample


@takes_options(StreamOptions)
class TFRecordStream(RecordDataset[Item_co]):
    """Records of TFRecord files or pipes, read from front to back without an index.

    Use it for pipes and for files that are read only once. With at least as many files as
    processes, each file is read by one process. With fewer, every process reads all files and keeps
    every n-th record. The number of records is not known: there is no ``len()``, no split, no
    uniform shuffle, and no :meth:`TFRecordDataset.resume`. See docs/streams.md.

    Args:
        paths: A file or pipe, glob pattern or directory, or several; see :class:`TFRecordDataset`.
        schema: See :class:`TFRecordDataset`.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        SchemaError: If the schema is inconsistent.
        ValueError: If another argument is invalid.
    """

    @overload
    def __init__(
        self: TFRecordStream[Batch],
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        *,
        batch_size: int,
        **options: Unpack[StreamSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordStream[Sample],
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        **options: Unpack[StreamSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordStream[Any],
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[StreamOptions],
    ) -> None: ...
    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        known = complete(StreamOptions, options)
        reader = StreamReader(
            expand_paths(paths, storage_options=access_options(known)),
            verify_crc=known["verify_crc"],
            max_record_bytes=known["max_record_bytes"],
        )
        super().__init__(_pipeline(reader.paths, reader, schema, known))

    @overload
    def replace(self, **options: Unpack[StreamOrderReplaceOptions]) -> Self: ...
    @overload
    def replace(self, **options: Unpack[StreamReplaceOptions]) -> TFRecordStream[Any]: ...
    @takes_options(StreamReplaceOptions, unchanged=True)
    def replace(self, **options: Unpack[StreamReplaceOptions]) -> TFRecordStream[Any]:
        """Return a stream with another schema or options, at its start. See docs/streams.md."""
        before = self._session.pipeline
        changes: dict[str, Any] = dict(options)
        schema = changes.pop("schema", before.schema)
        changed = change_options(StreamReplaceOptions, before.options, changes)
        return self._derive(_pipeline(before.paths, before.loader.reader, schema, changed))


def _pipeline(
    paths: Sequence[str], reader: Reader, schema: Any, options: Mapping[str, Any]
) -> Pipeline:
    names = ";".join(os.path.basename(path) for path in paths)
    window = min(int(options["shuffle"]), 2**62)
    order = StreamOrder(digest_text(os.fsencode(names)), window or False, options["seed"])
    return Pipeline(paths, schema, order, RecordLoader(reader, parser_of_messages(schema)), options)
