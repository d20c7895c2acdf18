"""Files that appear together under their names, or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ..storage.local import StrPath
from ..storage.pending_file import PendingFile, sync_folder


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
        self._files: dict[str, PendingFile] = {}  # by the path they are to have

    def add(self, path: StrPath) -> str:
        """Makes an empty temporary file for ``path``, and its folder if there is none.

        Returns:
            The temporary's name.

        Raises:
            ValueError: the path was added before.
            OSError: the file cannot be made.
        """
        target = os.path.normpath(path)
        if target in self._files:
            raise ValueError(f"{target!r} would be written twice")
        os.makedirs(os.path.dirname(target) or os.curdir, exist_ok=True)
        file = self._files[target] = PendingFile(target)
        return file.release()

    def __enter__(self) -> StagedFiles:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            for file in self._files.values():
                file.discard()

    def _finish(self) -> None:
        for file in self._files.values():
            file.sync()
        for file in self._files.values():
            file.rename()
        for folder in {os.path.dirname(path) for path in self._files}:
            sync_folder(folder or os.curdir)


@contextmanager
def open_output(temporary: StrPath, path: StrPath, mode: str = "wb") -> Iterator[BinaryIO]:
    """Opens a file to write; what the system has against writing names ``path``, which it is for.

    Args:
        temporary: The file that is opened.
        path: The one that a person knows.
        mode: ``"wb"``, or ``"xb"`` if it must not be there yet.
    """
    with io.BufferedWriter(_NamedFile(temporary, path, mode), 1 << 16) as file:
        yield file


class _NamedFile(io.FileIO):
    def __init__(self, temporary: StrPath, path: StrPath, mode: str) -> None:
        super().__init__(temporary, mode)
        self._path = path

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]  # any buffer
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error
