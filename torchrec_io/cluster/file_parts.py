"""Files, and parts of large ones, that tasks read."""

from __future__ import annotations

from .._records.index_cache import IndexSearch
from .._storage.location import Location
from . import tasks
from .division import DividedRecords
from .file_piece import FilePiece


def divide_file(file: Location) -> list[FilePiece]:
    """Return the parts of a file: one, or several if it is large and has an index.

    A compressed file is divided at the seek points of its index.
    """
    size = file.stamp().size
    whole = [FilePiece(file, stored_bytes=size)]
    if size <= tasks.TASK_BYTES:
        return whole
    index = IndexSearch(file).find()
    if index is None:
        return whole
    if index.compression is None and index.stream_end != size:
        return whole  # it has damage that the index ends before
    parts = DividedRecords([index]).divide(-(-size // tasks.TASK_BYTES))
    return [piece for [piece] in parts] or whole
