"""Output files that appear under their names together, or not at all."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from ..checks import check_choice
from ..records.index_file import SUFFIX
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..storage.pending_file import PendingFile, sync_folder
from .frame_writer import BUFFER_BYTES, FrameWriter

if TYPE_CHECKING:
    from typing_extensions import Self

_COMPRESSIONS: tuple[Compression | None, ...] = (None, "gzip", "zlib")


class OutputGroup:
    """Output files that appear under their names together, or not at all.

        with OutputGroup() as group:
            records = group.open_records("out/a.tfrecord", index=True)
            records.write(record)
            with group.open_file("out/a.labels.txt") as file:
                file.write(labels)

    The life cycle of a group is: open files, :meth:`prepare` them, then :meth:`commit` or
    :meth:`discard`. Leaving the ``with`` block commits the group; leaving it by an exception
    discards it.

    Every file is written under a temporary name ``.NAME-xxxxxxxx`` in the folder of its target, so
    that renaming it is one atomic step. Readers ignore such names.

    Args:
        create_folders: Whether missing folders of the targets are created.
    """

    def __init__(self, *, create_folders: bool = True) -> None:
        self._create_folders = create_folders
        self._records: list[FrameWriter] = []
        self._others: list[PendingFile | PendingFolder] = []
        self._targets: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.commit()
        finally:
            self.discard()

    def open_records(
        self,
        path: StrPath,
        compression: Compression | None = None,
        *,
        index: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> FrameWriter:
        """Open a TFRecord file. Several threads may open files at the same time.

        Args:
            path: Path of the file. It may still be changed before the group is committed, by
                setting :attr:`FrameWriter.path`.
            compression: ``None``, ``"gzip"`` or ``"zlib"``.
            index: Whether the file gets an index ``PATH.tfidx``.
            buffer_bytes: Number of bytes of small records that are gathered before they are framed.

        Raises:
            ValueError: If the compression is invalid or the group already has this path.
            OSError: If the file cannot be created.
        """
        check_choice("compression", compression, _COMPRESSIONS)
        self._add_target(path)
        file = FrameWriter(path, compression, index=index, buffer_bytes=buffer_bytes)
        self._records.append(file)
        return file

    def open_file(self, path: StrPath) -> BinaryIO:
        """Open a file of any other kind. It must be closed before the group is committed.

        Raises:
            ValueError: If the group already has this path.
            OSError: If the file cannot be created.
        """
        self._add_target(path)
        file = PendingFile(path)
        self._others.append(file)
        return open_named(file.release(), path)

    def open_folder(self, path: StrPath) -> str:
        """Create a folder, which must be new or empty when the group is committed.

        Returns:
            Temporary name of the folder.

        Raises:
            ValueError: If the group already has this path.
            OSError: If the folder cannot be created.
        """
        self._add_target(path)
        folder = PendingFolder(path)
        self._others.append(folder)
        return folder.temporary

    def prepare(self) -> None:
        """Write everything to storage, so that only the names are missing.

        Raises:
            OSError: If the system refuses a write.
        """
        for records in self._records:
            records.prepare()
        for other in self._others:
            other.sync()

    def commit(self) -> None:
        """Prepare all files and rename them to their targets, replacing files of these names.

        The order of the steps ensures that a reader never finds wrong data, even if the process is
        killed in between:

        1. Old indexes are removed. An index never lies beside a file that it does not belong to.
        2. If the group has several files, the old ones are removed. A mixture of old and new files
           could look like a complete set.
        3. The new files are renamed. If this fails in a group of several files, those that were
           renamed are removed.
        4. The new indexes are renamed.

        Raises:
            OSError: If the system refuses a write, a removal or a renaming.
        """
        self.prepare()
        outputs = [*self._records, *self._others]
        paths = [output.path for output in outputs]
        replaced = paths if len(paths) > 1 else []
        _remove_files([*(file.path + SUFFIX for file in self._records), *replaced])
        try:
            for output in outputs:
                output.rename()
        except BaseException:
            with contextlib.suppress(OSError):
                _remove_files(replaced)
            raise
        for file in self._records:
            file.rename_index()
        for folder in {os.path.dirname(path) for path in paths}:
            sync_folder(folder or os.curdir)

    def discard(self) -> None:
        """Remove all files that were not renamed to their targets."""
        for output in (*self._records, *self._others):
            output.discard()

    def _add_target(self, path: StrPath) -> None:
        target = os.path.normpath(path)
        if target in self._targets:
            raise ValueError(f"{target!r} would be written twice; choose another name")
        self._targets.add(target)
        if self._create_folders:
            os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)


class PendingFolder:
    """A folder that is filled under a temporary name.

    Attributes:
        path: Target of the folder.
        temporary: Name of the folder until it is renamed.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        parent, name = os.path.split(self.path)
        self.temporary = tempfile.mkdtemp(prefix=f".{name[:50]}-", dir=parent or None)
        # mkdtemp() creates private folders; this is the mode that mkdir() gives.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(self.temporary, 0o777 & ~umask)

    def sync(self) -> None:
        """Write all files to storage, by one call because there may be very many."""
        os.sync()

    def rename(self) -> None:
        """Rename the folder to its target."""
        os.rename(self.temporary, self.path)

    def discard(self) -> None:
        """Remove the folder, unless it was renamed."""
        shutil.rmtree(self.temporary, ignore_errors=True)


def open_named(temporary: StrPath, path: StrPath, mode: str = "wb") -> BinaryIO:
    """Open a temporary file for writing; errors of the system name its target.

    Args:
        temporary: Path of the file to open.
        path: Path that errors name.
        mode: ``"wb"``, or ``"xb"`` if the file must not exist.
    """
    return io.BufferedWriter(_NamedFile(temporary, path, mode), 1 << 16)


class _NamedFile(io.FileIO):
    def __init__(self, temporary: StrPath, path: StrPath, mode: str) -> None:
        super().__init__(temporary, mode)
        self._path = path

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]  # any buffer
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error


def _remove_files(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            # The name of an index may be too long; then there is no such file.
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise
