"""A complete object that another process has written."""

from __future__ import annotations

import errno

from ..location import Location
from ..pending_file import output_exists
from .pending_object import MOST_COPIED_BYTES
from .upload import copy_object, exists


class AdoptedObject:
    """A complete object that another process has written, under another name in the same store.

    It gets its name by a copy in the store. What was written stays: who wrote it removes it.

    Args:
        complete: Location of the object.
        target: Location that it gets.
        size: Size in bytes.

    Attributes:
        path: Public URL that it gets.
        size: Size in bytes.

    Raises:
        OSError: If the object is larger than what a store copies.
    """

    def __init__(self, complete: Location, target: Location, size: int) -> None:
        assert target.options is not None
        if size > MOST_COPIED_BYTES:
            reason = "a store copies no object of more than 5 GiB; write more and smaller shards"
            raise OSError(errno.EFBIG, reason, target.name)
        self.path = target.name
        self.size = size
        self._complete = complete.name
        self._options = target.options

    def sync(self) -> None:
        """Wait until the content is stored: a no-op, because the object is complete."""

    def rename(self, url: str, *, must_be_new: bool = False) -> None:
        """Give the object its name, as :meth:`PendingObject.rename` does."""
        if must_be_new and exists(url, self._options):
            raise output_exists(url)
        copy_object(self._complete, url, self._options)

    def discard(self) -> None:
        """Keep the complete object, because a job that is started again needs it."""
