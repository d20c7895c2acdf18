"""A complete file that another process has written."""

from __future__ import annotations

import os


class AdoptedFile:
    """A complete file that another process has written, in a hidden folder beside its target.

    It stays there until it is renamed. So it is not lost if that never happens.

    Args:
        complete: Name of the file.
        path: Target of the file.

    Attributes:
        path: Target of the file.
        temporary: Name of the file until it is renamed.
    """

    def __init__(self, complete: str, path: str) -> None:
        self.path = path
        self.temporary = complete

    def sync(self) -> None:
        """Wait until the content is stored: a no-op, because the file is complete."""

    def rename(self, path: str) -> None:
        """Rename the file, replacing any file of that name."""
        os.replace(self.temporary, path)

    def discard(self) -> None:
        """Keep the complete file, because its writer may adopt it again."""
