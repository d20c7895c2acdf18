"""The steps that all conversions to TFRecord share: sources, progress and output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from .._records.record_block import RecordList
from .._schema.schema import Schema
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.outputs import refuse_existing
from .._storage.paths import expand_paths, has_data_suffix
from .._writing.output_group import OutputGroup
from .._writing.shards import refuse_shards
from ..errors import ConversionError, TorchRecIOError
from ..inspection.surveyor import Survey, Surveyor
from ..tools.options import CopyOptions, open_shards, with_defaults
from ..tools.outputs import check_file_name, refuse_inputs, refuse_shard_inputs
from ..tools.report import JobReport, Result
from .columns import FoundType, add_types
from .options import Options

Item = TypeVar("Item")


class ConvertedPiece(NamedTuple):
    """The result of converting a piece of the source.

    Attributes:
        records: Serialized records.
        size: Size of the piece in bytes.
        errors: Errors of rows that could not be converted.
    """

    records: list[bytes]
    size: int
    errors: list[TorchRecIOError]


class Conversion:
    """A conversion to TFRecord.

    Args:
        destination: Path of the file, or common start of the paths of the shards.
        options: Keyword options of the conversion.

    Attributes:
        report: Counts of the conversion.

    Raises:
        TypeError: If there is an unknown option.
        ValueError: If an option is invalid or the destination is a folder.
    """

    def __init__(self, destination: StrPath, options: Options) -> None:
        self._options: CopyOptions = with_defaults(options, Options)
        self.report: JobReport = JobReport(self._options["on_error"], self._options["watcher"])
        self._force = self._options["force"]
        self._sources: list[Location] = []
        self._num_shards = options.get("num_shards")
        self._max_bytes = options.get("max_bytes")
        if self._num_shards is not None and self._max_bytes is not None:
            raise ValueError("num_shards and max_bytes cannot be used together")
        self._is_sharded = self._num_shards is not None or self._max_bytes is not None
        self._name = check_file_name(self.locate(destination))
        if not (self._is_sharded or has_data_suffix(self._name.basename)):
            self._name = self._name.beside(".tfrecord")

    def locate(self, path: StrPath) -> Location:
        """Return the location of a source or output."""
        return Location.of(path, self._options["storage_options"])

    def source_files(self, sources: StrPath | Iterable[StrPath]) -> list[Location]:
        """Return the files to convert.

        Raises:
            ValueError: If there are no files, one is a pipe, which cannot be read twice, or the
                output would overwrite one.
            FileNotFoundError: If a path matches no file.
            FileExistsError: If the output exists, unless it may be replaced.
        """
        self._sources = expand_paths(
            sources,
            tfrecord_names=False,
            allow_missing=self._options["allow_missing"],
            storage_options=self._options["storage_options"],
        )
        for file in self._sources:
            if not file.is_seekable():
                raise ValueError(
                    f"{file!r} is a pipe, which cannot be read twice; save it to a file first"
                )
        if self._is_sharded:
            most = None if self._force else self._num_shards
            refuse_shard_inputs(self._sources, self._name, most)
        else:
            refuse_inputs(self._sources, [self._name])
        if not self._force:
            # The group of the outputs refuses them, too, but only after the first pass.
            if self._is_sharded:
                refuse_shards(self._name)
            else:
                refuse_existing(self._name)
        return self._sources

    def find_types(
        self, work: Callable[[Item], tuple[dict[str, FoundType], int]], pieces: Iterable[Item]
    ) -> dict[str, FoundType]:
        """Read all pieces of the source in processes to find the dtypes that columns need.

        Args:
            work: Function of a module that returns the dtypes that the columns of a piece need, and
                the size of the piece in bytes.
            pieces: Pieces of the sources.

        Raises:
            ConversionError: If a column has both numbers and text.
        """
        types: dict[str, FoundType] = {}
        with OrderedPool(work, self._options["jobs"], processes=True) as pool:
            for found, size in pool.map(pieces):
                add_types(types, found)
                self.report.add(0, size)
        return types

    def write(
        self,
        work: Callable[[Item], ConvertedPiece],
        pieces: Iterable[Item],
        schema: Schema | Callable[[Survey], Schema | None],
        *,
        processes: bool = True,
        companions: Mapping[Location, bytes] | None = None,
    ) -> Result:
        """Convert all pieces of the source.

        Args:
            work: Function of a module that converts a piece.
            pieces: Pieces of the sources, in the order of the records.
            schema: Schema of the records, or function that returns it for a survey of them.
            processes: Whether to use processes or threads.
            companions: Contents of other files, which appear together with the records.

        Raises:
            ConversionError: If a piece has an error, unless errors are skipped, or there is no
                record to write.
        """
        report, surveyor = self.report, Surveyor()
        compression, index = self._options["compression"], self._options["index"]
        sizes = self._num_shards, self._max_bytes
        with (
            OrderedPool(work, self._options["jobs"], processes=processes) as pool,
            OutputGroup(force=self._force) as group,
        ):
            output = (
                open_shards(group, self._name, *sizes, self._options)
                if self._is_sharded
                else group.open_records(self._name, compression, index=index)
            )
            for companion, content in (companions or {}).items():
                with group.open_file(companion) as file:
                    file.write(content)
            for converted in pool.map(pieces):
                for record in converted.records:
                    output.write(record)
                if callable(schema):
                    surveyor.add(RecordList.of(converted.records))
                report.add(len(converted.records), converted.size, converted.errors)
            if not report.records:
                only = self._sources[0].name if len(self._sources) == 1 else None
                raise ConversionError("there is no record to write", path=only)
            outputs = output.finish()
        found = schema(surveyor.result()) if callable(schema) else schema
        return replace(report.result(outputs, output.counts), schema=found)


def size_of(file: Location) -> int:
    """Return the size of a source in bytes."""
    return file.stamp().size
