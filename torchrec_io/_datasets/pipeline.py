"""The parts of a dataset as one value: how records are read, ordered and parsed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from .._order.orders import RecordOrder, files_fingerprint
from .._order.selection import Selection, Span
from .._order.split import parse_slice
from .._records.formats import TFRECORD, RecordFormat
from .._records.index import RecordIndex
from .._records.index_cache import IndexChoice, open_indexes
from .._records.record_reader import RecordReader
from .._storage.compression import CompressionChoice
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from .._tensors.block_parser import BlockParser
from ..errors import TorchRecIOError
from .options import has_length_batches
from .record_loader import RecordLoader

if TYPE_CHECKING:
    from .._order.windows import Lengths

# Makes the parser of a schema that the user gave.
MakeParser: TypeAlias = Callable[[Any], BlockParser]


@dataclass(frozen=True)
class DataFiles:
    """Data files whose indexes are open.

    Attributes:
        paths: Names of the files.
        indexes: The index of each file.
        errors: Damage that ended indexing early.
        selection: The records to read; None for all.
        name: Text that identifies the files in addition to their contents, on any machine.
    """

    paths: Sequence[str]
    indexes: Sequence[RecordIndex]
    errors: Sequence[TorchRecIOError] = ()
    selection: Selection | None = None
    name: str = ""

    @classmethod
    def open(
        cls,
        paths: StrPath | Iterable[StrPath],
        index: IndexChoice = "auto",
        compression: CompressionChoice = "auto",
        record_format: RecordFormat = TFRECORD,
        *,
        storage_options: StorageOptions = None,
        verify_crc: bool = True,
    ) -> DataFiles:
        """Find the files that paths stand for, and open or build their indexes."""
        if index is None:
            raise ValueError(
                "index must be 'auto', a path or a list of paths, got None. To read TFRecord files "
                "from front to back without an index, use TFRecordStream"
            )
        found = expand_paths(
            paths,
            tfrecord_names=record_format.code == TFRECORD.code,
            storage_options=storage_options,
        )
        if index != "auto":
            names = [index] if isinstance(index, (str, os.PathLike)) else index
            index = [Location.of(name, storage_options) for name in names]
        indexes = open_indexes(
            found,
            index,
            compression,
            record_format,
            verify_crc=verify_crc,
        )
        return cls([each.name for each in found], *indexes)

    def order(self, split: str | None) -> RecordOrder:
        """Return the order of the selected records as stored.

        Raises:
            ValueError: If ``split`` is not a slice of the records.
        """
        total = sum(map(len, self.indexes))
        selection = self.selection or Span(0, total, total)
        if split is not None:
            selection = parse_slice(split, total)
        contents = files_fingerprint([index.identity for index in self.indexes])
        return RecordOrder(selection, files=f"{self.name} {contents}".lstrip())


@dataclass(frozen=True)
class Pipeline:
    """The parts of a dataset. A dataset with other options gets a new pipeline.

    Attributes:
        paths: The data files.
        schema: The schema as the user gave it.
        order: Order of the units that are assigned to processes: records, or batches by length.
        loader: Reads and parses records.
        options: All options, checked.
        errors: Errors found so far, for ``on_error``.
    """

    paths: Sequence[str]
    schema: Any
    order: Any
    loader: RecordLoader
    options: Mapping[str, Any]
    errors: Sequence[TorchRecIOError] = field(default=(), compare=False)

    def with_options(self, options: Mapping[str, Any]) -> Pipeline:
        """Return a pipeline with other options."""
        return dataclasses.replace(self, options=options, errors=())


@dataclass(frozen=True)
class IndexedPipeline(Pipeline):
    """The parts of a dataset of indexed files.

    Attributes:
        records: Reader of single records.
        record_order: Order of the records, before they are put into batches by length.
        make_parser: Makes the parser of a schema.
    """

    records: RecordReader = field(kw_only=True)
    record_order: RecordOrder = field(kw_only=True)
    make_parser: MakeParser = field(kw_only=True)

    @classmethod
    def build(
        cls,
        files: DataFiles,
        schema: Any,
        make_parser: MakeParser,
        options: Mapping[str, Any],
    ) -> IndexedPipeline:
        """Return the pipeline of data files.

        Raises:
            SchemaError, ValueError: If the schema or an option is invalid.
        """
        return cls._assemble(
            paths=files.paths,
            schema=schema,
            options=options,
            errors=files.errors,
            records=RecordReader(
                files.indexes,
                verify_crc=options.get("verify_crc", True),
                max_record_bytes=options["max_record_bytes"],
                cache_bytes=options["cache_bytes"],
                cache=options["cache"],
            ),
            record_order=files.order(options.get("split")),
            make_parser=make_parser,
        )

    def with_options(self, options: Mapping[str, Any]) -> IndexedPipeline:
        return self.rebuild(options=options)

    def rebuild(self, **changes: Any) -> IndexedPipeline:
        """Return a pipeline with another schema, options, order of records or parser."""
        return self._assemble(
            paths=self.paths,
            schema=changes.pop("schema", self.schema),
            options=changes.pop("options", self.options),
            records=self.records,
            record_order=changes.pop("record_order", self.record_order),
            make_parser=changes.pop("make_parser", self.make_parser),
            lengths=getattr(self.order, "lengths", None),
        )

    @classmethod
    def _assemble(
        cls,
        *,
        paths: Sequence[str],
        schema: Any,
        options: Mapping[str, Any],
        records: RecordReader,
        record_order: RecordOrder,
        make_parser: MakeParser,
        lengths: Lengths | None = None,
        errors: Sequence[TorchRecIOError] = (),
    ) -> IndexedPipeline:
        parser = make_parser(schema)
        record_order = dataclasses.replace(
            record_order, shuffle=options["shuffle"], seed=options["seed"]
        )
        order: Any = record_order
        if has_length_batches(options):
            from .length_batching import (  # noqa: PLC0415  # rarely needed
                batch_by_length,
                too_long_records,
            )

            if not record_order.can_batch_by_length:
                raise ValueError("a dataset of steps has no batches by length")
            order = batch_by_length(record_order, records, parser, options, lengths)
            errors = [*errors, *too_long_records(order, records, options)]
            length_key = options["length_key"]
            if length_key is not None and not isinstance(length_key, str):
                options = {**options, "length_key": order.lengths}
        if options.get("pack") is not None:
            from .packing import (  # noqa: PLC0415  # rarely needed
                left_out_documents,
                pack_documents,
            )

            if not record_order.can_batch_by_length:
                raise ValueError("a dataset of steps has no packed rows: pack must be None")
            loader = RecordLoader(records, parser)
            order, options = pack_documents(record_order, loader, records, options, lengths)
            errors = [*errors, *left_out_documents(order, records, options["on_error"])]
        reader = order.fit_reader(records, options["batch_size"] or 1)
        return cls(
            paths,
            schema,
            order,
            RecordLoader(reader, parser),
            options,
            errors,
            records=records,
            record_order=record_order,
            make_parser=make_parser,
        )
