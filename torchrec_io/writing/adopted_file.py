"""A complete file that another process has written."""

from __future__ import annotations

import os

from ..storage.commit_journal import remove_file
from ..storage.temporary import temporary_name


class AdoptedFile:
    """A complete file that another process has written, under a temporary name.

    Attributes:
        path: Target of the file.
        temporary: Name of the file until it is renamed.
    """

    def __init__(self, complete: str, path: str) -> None:
        self.path = path
        self.temporary = temporary_name(path)
        os.rename(complete, self.temporary)

    def sync(self) -> None:
        """Do nothing: the file is on storage."""

    def rename(self, path: str) -> None:
        """Rename the file, replacing any file of that name."""
        os.replace(self.temporary, path)

    def keep(self) -> None:
        """Keep the temporary file, unless it is discarded. Nothing else would remove it."""

    def discard(self) -> None:
        """Remove the file. Nothing happens if it was renamed."""
        remove_file(self.temporary)
