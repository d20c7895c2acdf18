"""Folders that appear under their names only when they are complete."""

from __future__ import annotations

import os
import shutil

from .._storage.local import StrPath
from .._storage.pending_file import sync_file_system
from .._storage.temporary import make_temporary_folder


class PendingFolder:
    """A folder that is filled under a temporary name.

    Attributes:
        path: Target of the folder.
        temporary: Name of the folder until it is renamed.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self.temporary = make_temporary_folder(self.path)

    def sync(self) -> None:
        """Write all files to storage, by one call because there may be very many."""
        sync_file_system(self.temporary)

    def rename(self, path: str) -> None:
        """Rename the folder."""
        os.rename(self.temporary, path)

    def discard(self) -> None:
        """Remove the folder. Nothing happens if it was renamed."""
        shutil.rmtree(self.temporary, ignore_errors=True)
