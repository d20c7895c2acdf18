"""Detection of data files that are changed in place while they are read."""

from __future__ import annotations

from collections.abc import Iterable

from .._storage.byte_source import ByteSource
from .._storage.several_sources import find_changed
from ..errors import StaleIndexError, TorchRecIOError, TruncatedFileError


def check_unchanged(sources: Iterable[ByteSource], *, may_grow: bool = False) -> None:
    """Check that open files have not been changed in place since they were opened.

    Args:
        sources: Open files. Sources that cannot be watched are not checked.
        may_grow: Whether a file that became longer counts as unchanged.

    Raises:
        StaleIndexError: If a file was changed.
        TruncatedFileError: If a file was truncated.
    """
    changed = find_changed(sources)
    if changed is None or changed.file_watch is None:
        return
    before, now = changed.stamp.size, changed.file_watch.present_size()
    if not (may_grow and now > before):
        raise changed_error(changed.path, before, now)


def changed_error(path: str, before: int, now: int) -> TorchRecIOError:
    """Return the error for a file that was changed in place while it was read.

    Args:
        path: Data file.
        before: Size of the file when it was opened.
        now: Size of the file now.
    """
    if 0 <= now < before:
        return TruncatedFileError(
            "the file has become shorter since it was opened", path=path, offset=now
        )
    return StaleIndexError("the data file was changed while it was read", path=path)
