"""Files that appear together under their names, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from types import TracebackType

from ..records.storage import StrPath


class StagedFiles:
    """Temporary files that get their names when all of them are complete.

        with StagedFiles() as staged:
            write(staged.add("out/a.parquet"))
            write(staged.add("out/b.parquet"))

    Each temporary lies in the folder of its file, so that renaming it is one step, and is called
    ``.NAME-xxxx``, which no reader takes for data. Leaving the block by an exception removes all of
    them; files that have the names already stay as they were until then.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of the temporary, by that of the file

    def add(self, path: StrPath) -> str:
        """Makes an empty temporary file for ``path``, and its folder if there is none.

        Returns:
            The temporary's name.

        Raises:
            ValueError: the path was added before.
            OSError: the file cannot be made.
        """
        target = Path(path)
        if str(target) in self._names:
            raise ValueError(f"{str(target)!r} would be written twice")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        self._names[str(target)] = name
        # mkstemp makes files private; give it the mode that open() would have.
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(handle, 0o666 & ~umask)
        os.close(handle)
        return name

    def __enter__(self) -> StagedFiles:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for name in self._names.values():
                with contextlib.suppress(OSError):
                    os.unlink(name)

    def _finish(self) -> None:
        for name in self._names.values():
            _sync(name)
        for target, name in list(self._names.items()):
            os.replace(name, target)
            del self._names[target]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
