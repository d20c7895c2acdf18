"""The parts of a dataset as one value: how records are read, ordered and parsed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from .._order.orders import RecordOrder, files_fingerprint
from .._order.selection import Selection, Span
from .._order.shuffle import Shuffle
from .._order.split import parse_slice
from .._records.formats import TFRECORD, RecordFormat
from .._records.index import RecordIndex
from .._records.opening import open_indexes
from .._records.record_reader import RecordReader
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._tensors.block_parser import BlockParser, parser_of_messages
from ..errors import TorchRecIOError
from .options import access_options, check_no_length_batches, has_length_batches, largest_batch
from .record_loader import RecordLoader

if TYPE_CHECKING:
    from .._order.windows import Lengths

# Makes the parser of a schema that the user gave.
MakeParser: TypeAlias = Callable[[Any], BlockParser]

# Options with which units are records.
_OF_RECORDS: Mapping[str, Any] = {"batch_tokens": None, "length_key": None, "pack": None}


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

    def in_units(self, reader: RecordReader, lengths: Lengths | None = None) -> Self:
        """Return the pipeline of the units that options ask for: records, batches or rows.

        The order of this pipeline is one of records, or of rows that were mixed.

        Args:
            reader: Reads the records.
            lengths: Lengths of the records that were found before.

        Raises:
            ValueError: If the options do not fit the records.
        """
        units, parser, options = self.order, self.loader.parser, self.options
        left_out: Sequence[TorchRecIOError] = ()
        if has_length_batches(options):
            from .length_batching import batch_by_length  # noqa: PLC0415  # rarely needed

            units, options, left_out = batch_by_length(units, reader, parser, options, lengths)
        if options.get("pack") is not None and not units.has_rows:
            from .packing import pack_documents  # noqa: PLC0415  # rarely needed

            units, options, left_out = pack_documents(units, reader, parser, options, lengths)
        fitting = units.fit_reader(reader, largest_batch(options))
        if units.has_rows:
            from .packing import RowLoader  # noqa: PLC0415  # rarely needed

            raises = options["on_error"] == "raise"
            loader: RecordLoader = RowLoader(fitting, parser, options["pack"], raises=raises)
        else:
            loader = RecordLoader(fitting, parser)
        errors = [*self.errors, *left_out]
        return dataclasses.replace(self, order=units, loader=loader, options=options, errors=errors)

    def with_options(self, options: Mapping[str, Any]) -> Pipeline:
        """Return a pipeline with other options."""
        loader = self.loader.for_options(options)
        return dataclasses.replace(self, loader=loader, options=options, errors=())


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
    def open(
        cls,
        paths: StrPath | Iterable[StrPath],
        schema: Any,
        options: Mapping[str, Any],
        record_format: RecordFormat = TFRECORD,
        make_parser: MakeParser = parser_of_messages,
    ) -> IndexedPipeline:
        """Find the files that paths stand for, and open or build their indexes.

        Raises:
            OSError, TorchRecIOError, ValueError: As :class:`TFRecordDataset` does.
        """
        index = options.get("index", "auto")
        if index is None:
            raise ValueError(
                "index must be 'auto', a path or a list of paths, got None. To read TFRecord files "
                "from front to back without an index, use TFRecordStream"
            )
        access = access_options(options)
        is_tfrecord = record_format.code == TFRECORD.code
        found = expand_paths(paths, tfrecord_names=is_tfrecord, storage_options=access)
        if index != "auto":
            names = [index] if isinstance(index, (str, os.PathLike)) else index
            index = [Location.of(name, access) for name in names]
        indexes, errors = open_indexes(
            found,
            index,
            options.get("compression", "auto"),
            record_format,
            verify_crc=options.get("verify_crc", True),
        )
        files = [each.name for each in found]
        return cls.of_indexes(files, indexes, schema, options, make_parser, errors=errors)

    @classmethod
    def of_indexes(
        cls,
        paths: Sequence[str],
        indexes: Sequence[RecordIndex],
        schema: Any,
        options: Mapping[str, Any],
        make_parser: MakeParser = parser_of_messages,
        *,
        errors: Sequence[TorchRecIOError] = (),
        selection: Selection | None = None,
        name: str = "",
    ) -> IndexedPipeline:
        """Return the pipeline of data files whose indexes are open.

        Args:
            paths: Names of the files.
            indexes: The index of each file.
            schema: The schema as the user gave it.
            options: All options, checked.
            make_parser: Makes the parser of a schema.
            errors: Damage that ended indexing early.
            selection: The records to read if there is no ``split``; None for all.
            name: Text that identifies the files in addition to their contents, on any machine.

        Raises:
            SchemaError, ValueError: If the schema or an option is invalid.
        """
        total = sum(map(len, indexes))
        if options.get("split") is not None:
            selection = parse_slice(options["split"], total)
        elif selection is None:
            selection = Span(0, total, total)
        contents = files_fingerprint([index.identity for index in indexes])
        records = RecordReader(
            indexes,
            verify_crc=options.get("verify_crc", True),
            max_record_bytes=options["max_record_bytes"],
            cache_bytes=options["cache_bytes"],
            cache=options["cache"],
        )
        order = RecordOrder(selection, files=f"{name} {contents}".lstrip())
        loader = RecordLoader(records, BlockParser())  # of bytes, until the schema is applied
        stored = cls(
            paths,
            schema,
            order,
            loader,
            options,
            records=records,
            record_order=order,
            make_parser=make_parser,
        )
        return stored.rebuild(errors=errors)

    def with_options(self, options: Mapping[str, Any]) -> IndexedPipeline:
        return self.rebuild(options=options)

    def rebuild(self, **changes: Any) -> IndexedPipeline:
        """Return a pipeline with another schema, options, order of records or parser."""
        parts = dataclasses.replace(self, **{"errors": (), **changes})
        options, errors = parts.options, parts.errors
        loader = RecordLoader(parts.records, parts.make_parser(parts.schema))
        shuffle = options.get("shuffle", False)
        if isinstance(shuffle, Shuffle) and shuffle.needs_pass:
            from .weighing import find_weights  # noqa: PLC0415  # rarely needed

            stored = parts.rebuild(options={**options, "shuffle": False, **_OF_RECORDS})
            shuffle, lost = find_weights(stored, shuffle)
            options, errors = {**options, "shuffle": shuffle}, [*errors, *lost]
        seed = options.get("seed", 0)
        order = dataclasses.replace(parts.record_order, shuffle=shuffle, seed=seed)
        if not order.can_batch_by_length:
            check_no_length_batches(options, "a dataset of steps")
        records = dataclasses.replace(
            parts, order=order, record_order=order, loader=loader, options=options, errors=errors
        )
        return records.in_units(parts.records, getattr(self.order, "lengths", None))
