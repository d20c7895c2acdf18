"""TFRecord files as a source of Ray Data. It imports Ray."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from ..checks import counted
from ..errors import TorchRecIOError
from ..tools.report import OnError
from .division import DividedRecords
from .file_piece import FilePiece
from .record_tables import NUMBER_COLUMN, TableReader

logger: logging.Logger = logging.getLogger("torchrec_io")


class TFRecordDatasource(Datasource):
    """TFRecord files, read by tasks that each parse consecutive records.

    Args:
        records: The records.
        reader: Reader of the records.
        on_error: ``"raise"``, or ``"skip"`` to leave out and log bad records.
    """

    def __init__(self, records: DividedRecords, reader: TableReader, on_error: OnError) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._records = records
        self._reader = reader
        self._on_error = on_error
        self._projection_map: dict[str, str] | None = None

    def get_name(self) -> str:
        """Return the name of the read operator in progress bars and statistics."""
        return "TFRecords"

    def supports_projection_pushdown(self) -> bool:
        """Return True: features that are not selected are not parsed."""
        return True

    def estimate_inmemory_data_size(self) -> int:
        """Return the size of all records, which is about that of the tables without images."""
        return self._records.size

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[Any]:
        """Return tasks that read about the same number of bytes each.

        Args:
            parallelism: Largest number of tasks.
            per_task_row_limit: Largest number of rows of each task.
            data_context: Not used.
        """
        del data_context
        reader = self._reader
        if self._projection_map is not None:
            reader = reader.narrow(self._projection_map)
        tasks = []
        for pieces in self._records.divide(max(1, parallelism)) or [[]]:
            # The number of records that are skipped is not known.
            is_known = self._on_error == "raise"
            count = sum(piece.count for piece in pieces) if is_known else None
            metadata = BlockMetadata(
                num_rows=count,
                size_bytes=sum(piece.size for piece in pieces),
                exec_stats=None,
                input_files=tuple(dict.fromkeys(piece.location.name for piece in pieces)),
            )
            read = functools.partial(_read, reader, pieces, self._on_error)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _read(reader: TableReader, pieces: Sequence[FilePiece], on_error: OnError) -> Iterator[Any]:
    """Yield the tables of some pieces, in a task.

    If records have numbers, those that are skipped come, too, without bytes.
    """
    skipped: Counter[str | None] = Counter()
    first: dict[str | None, TorchRecIOError] = {}
    has_numbers = NUMBER_COLUMN in reader.names
    numbers = []
    for found in reader.tables(pieces):
        for error in found.errors:
            if on_error == "raise":
                raise error
            skipped[error.path] += 1
            first.setdefault(error.path, error)
        if has_numbers:
            numbers.append(found.table[NUMBER_COLUMN].to_numpy())
        if found.table.num_rows:
            yield found.table
    if has_numbers and skipped:
        yield reader.skipped(pieces, numbers)
    for path, count in skipped.items():
        which = ":" if count == 1 else ", the first one:"
        logger.warning("skipped %s%s %s", counted(count, "error"), which, first[path])
