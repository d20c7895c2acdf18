"""Conversions to TFRecord whose work is done by tasks of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .._schema.record_sample import choose_records
from .._schema.schema import Schema
from .._schema.survey import Survey
from .._schema.survey_files import survey_sample
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.thread_pool import map_in_threads
from ..convert.conversion import Conversion, ConvertedPiece, Options, SourceFile, SourcePart
from ..tools.report import Result
from .extra import import_ray
from .part_records import TaskErrors
from .shard_job import Item, Output, write_shards

T = TypeVar("T")


class ClusterConversion(Conversion):
    """A conversion to TFRecord whose work is done by tasks of a cluster.

    Args:
        destination: Path of the file, or common start of the paths of the shards.
        options: Keyword options of the conversion.
        arguments: Name of the conversion and its arguments.
        others: Files besides the sources that the conversion reads.

    Raises:
        ImportError: If Ray is not installed.
        TypeError: If there is an unknown option.
        ValueError: If an option is invalid, or the destination is a folder.
        OSError: If the destination is a URL of HTTP.
    """

    def __init__(
        self,
        destination: StrPath,
        options: Options,
        arguments: Sequence[object],
        others: Sequence[StrPath] = (),
    ) -> None:
        import_ray()
        if "jobs" in options:
            raise ValueError("jobs cannot be used on a cluster, which has a task for each CPU")
        super().__init__(destination, options)
        self._arguments = [repr(argument) for argument in arguments]
        self._others = [self.locate(path).absolute() for path in others]
        self._output = Output(
            self._name,
            self._num_shards,
            self._max_bytes,
            options.get("compression"),
            options.get("index", True),
            self._force,
        )

    def source_files(self, sources: StrPath | Sequence[StrPath]) -> list[SourceFile]:
        # Tasks have other working directories.
        files = super().source_files(sources)
        return [file._replace(location=file.location.absolute()) for file in files]

    def write(
        self,
        work: Callable[[T], ConvertedPiece],
        parts: Sequence[SourcePart[T]],
        schema: Schema | Callable[[Survey], Schema | None],
        *,
        processes: bool = True,
        companions: Mapping[Location, bytes] | None = None,
    ) -> Result:
        del processes
        written = write_shards(
            [Item(part.size, part.key, functools.partial(_records, part, work)) for part in parts],
            self._output,
            self._identity(),
            self.report,
            companions=companions,
            check=self._check_count,
        )
        if callable(schema):
            records = choose_records(written.outputs, None)
            found = schema(survey_sample(records, skip_errors=False))
        else:
            found = schema
        return self.report.result(written.outputs, written.counts, schema=found)

    def _refuse_outputs(self) -> None:
        self._output.check_new(self._identity())

    def _identity(self) -> list[str]:
        """Return the arguments and the identity of the files that are read."""
        files = [*self._others, *(file.location for file in self._sources)]
        stamps = map_in_threads(Location.stamp_now, files)
        texts = [f"{file} {stamp}" for file, stamp in zip(files, stamps, strict=True)]
        return [*self._arguments, *texts]


def _records(
    part: SourcePart[T],
    work: Callable[[T], ConvertedPiece],
    errors: TaskErrors,
    facts: dict[str, Any],
) -> Iterator[bytes]:
    """Yield the records of a part of the sources."""
    del facts
    for piece in part.read():
        converted = work(piece)
        errors.add(converted.errors)
        yield from converted.records
