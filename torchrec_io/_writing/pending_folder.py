"""Folders that appear under their names only when they are complete."""

from __future__ import annotations

import os
import shutil

from .._storage.local import StrPath
from .._storage.pending_file import sync_path
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
        """Wait until all files are on storage."""
        os.sync()  # all of them at once: there may be very many
        for folder, _, names in os.walk(self.temporary):
            for name in names:
                sync_path(os.path.join(folder, name))  # which tells whether that has failed

    def rename(self, path: str) -> None:
        """Rename the folder."""
        os.rename(self.temporary, path)

    def discard(self) -> None:
        """Remove the folder. Nothing happens if it was renamed."""
        shutil.rmtree(self.temporary, ignore_errors=True)
