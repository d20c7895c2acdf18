"""Indexes that are built only if there is none that is up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..errors import IndexFormatError, StaleIndexError
from ..storage.location import Location
from .formats import Progress
from .index import RecordIndex


@dataclass(frozen=True)
class UpdatedIndex:
    """The index of a file, which is up to date.

    Attributes:
        state: Whether the index was built, or was up to date before.
        index: The index.
    """

    state: Literal["indexed", "up to date"]
    index: RecordIndex


def update_index(
    location: Location,
    load: Callable[[Location], RecordIndex],
    write: Callable[[RecordIndex], object],
    *,
    force: bool = False,
    replaces_others: bool = True,
    seek_point_bytes: int | None = None,
    max_index_bytes: int | None = None,
    progress: Progress | None = None,
) -> UpdatedIndex:
    """Return the index of a file, which is built and written unless it is up to date.

    Args:
        location: Data file.
        load: Function that loads the index of a data file.
        write: Function that writes an index.
        force: Whether an index that is up to date is built again.
        replaces_others: Whether a file in the place of the index that is no index is replaced.
        seek_point_bytes: See :meth:`RecordIndex.build`.
        max_index_bytes: See :meth:`RecordIndex.build`.
        progress: See :meth:`RecordIndex.build`.

    Raises:
        IndexFormatError: If another file is in the place of the index, and may not be replaced.
        CorruptRecordError, TruncatedFileError: If the data file is damaged.
        IndexTooLargeError: If the index would be too large.
        OSError: If a file cannot be read or written.
    """
    if not force:
        try:
            index = load(location)
            # Otherwise building it raises the error, or finds seek points.
            if not index.gaps and not index.lacks_seek_points:
                return UpdatedIndex("up to date", index)
        except (FileNotFoundError, StaleIndexError):
            pass  # the index is missing or stale, so it is built
        except IndexFormatError:
            if not replaces_others:
                raise
    index = RecordIndex.build(
        location,
        progress=progress,
        seek_point_bytes=seek_point_bytes,
        max_index_bytes=max_index_bytes,
    )
    write(index)
    return UpdatedIndex("indexed", index)
