"""Output files that appear under their names together, or not at all."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from ..checks import check_choice
from ..records.index_file import SUFFIX
from ..storage.commit_journal import CommitJournal, Rename, finish_interrupted, remove_file
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..storage.pending_file import PendingFile, sync_file_system, sync_folder
from ..storage.temporary import make_temporary_folder
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

    Every file is written under a temporary name ``.NAME-xxxxxxxxxxxxxxxxxxxxxxxx`` in the folder of
    its target, so that renaming it is one atomic step. Readers ignore such names. All targets are
    in one folder.

    Args:
        create_folders: Whether a missing folder of the targets is created.
        force: Whether existing files of the same names are replaced. Otherwise they are refused:
            when a file is opened, and again before the first one is renamed.

    Attributes:
        force: Whether existing files are replaced.
    """

    def __init__(self, *, create_folders: bool = True, force: bool = True) -> None:
        self.force = force
        self._create_folders = create_folders
        self._records: list[FrameWriter] = []
        self._others: list[PendingFile | PendingFolder] = []
        self._targets: set[str] = set()
        self._removed: list[str] = []
        self._folder: str | None = None
        self._is_decided = False

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
            FileExistsError: If the file exists and may not be replaced.
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
            FileExistsError: If the file exists and may not be replaced.
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

    def remove(self, paths: Iterable[str]) -> None:
        """Remove other files of the folder, and their indexes, in the same step as the commit."""
        self._removed += [name for path in paths for name in (path, path + SUFFIX)]

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
        """Prepare all files and rename them to their targets.

        A single output needs no journal: its old index is removed, then the file is renamed, then
        its index. Whenever that ends, the old or the new file is there, with its own index or
        without one.

        The renames of several outputs are written to a :class:`CommitJournal`. Until it is on
        storage, the old files are untouched. Afterwards the commit can only be completed, if need
        be by the next process that opens the folder.

        Raises:
            FileExistsError: If there is a file of one of the names, and it may not be replaced.
            InterruptedCommitError: If an earlier commit to the folder cannot be completed.
            OSError: If the system refuses a write, a removal or a renaming. If it says that the new
                files are complete, they are kept.
        """
        self.prepare()
        if self._folder is None:
            return
        if not self.force:
            for output in (*self._records, *self._others):
                refuse_existing(output.path)  # it may be new
        indexes = [file.path + SUFFIX for file in self._records] + self._removed
        pending: list[tuple[PendingFile | PendingFolder, str]] = []
        for records in self._records:
            pending += records.pending
        pending += [(other, other.path) for other in self._others]
        if self._removed or len(self._records) + len(self._others) > 1:
            self._commit_several(self._folder, pending, indexes)
            return
        finish_interrupted(self._folder)
        for path in indexes:
            remove_file(path)
        for output, target in pending:
            output.rename(target)
        sync_folder(self._folder)

    def _commit_several(
        self,
        folder: str,
        pending: Sequence[tuple[PendingFile | PendingFolder, str]],
        indexes: Sequence[str],
    ) -> None:
        renames = [_as_rename(output.temporary, target) for output, target in pending]
        stale = {*map(os.path.basename, indexes)} - {rename.target for rename in renames}
        journal = CommitJournal(folder, sorted(stale), renames)
        # The files belong to the journal from now on, even if the interpreter exits.
        for output, _ in pending:
            output.keep()
        try:
            self._is_decided = True
            journal.write()
            journal.follow()
        except BaseException:
            self._is_decided = not journal.revoke()
            raise

    def discard(self) -> None:
        """Remove all files that were not renamed, unless a later process will rename them."""
        if not self._is_decided:
            for output in (*self._records, *self._others):
                output.discard()

    def _add_target(self, path: StrPath) -> None:
        target = os.path.normpath(path)
        if target in self._targets:
            raise ValueError(f"{target!r} would be written twice; choose another name")
        folder = os.path.dirname(target)
        if self._folder is None:
            if self._create_folders:
                os.makedirs(folder or os.curdir, exist_ok=True)
            finish_interrupted(folder)
            self._folder = folder
        elif folder != self._folder:
            raise ValueError(
                f"all outputs must be in the folder {self._folder or os.curdir!r}, got {target!r}"
            )
        if not self.force:
            refuse_existing(path)
        self._targets.add(target)


def refuse_existing(path: StrPath) -> None:
    """Raise an error if an output exists.

    Raises:
        FileExistsError: If there is a file, folder or link of this name.
    """
    if os.path.lexists(path):
        raise FileExistsError(
            errno.EEXIST,
            "the output exists; choose another name, or replace it with force=True (--force)",
            os.fspath(path),
        )


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

    def keep(self) -> None:
        """Keep the temporary folder, unless it is discarded. Nothing else would remove it."""

    def discard(self) -> None:
        """Remove the folder. Nothing happens if it was renamed."""
        shutil.rmtree(self.temporary, ignore_errors=True)


def _as_rename(temporary: str, target: str) -> Rename:
    status = os.stat(temporary)
    return Rename(
        os.path.basename(temporary),
        os.path.basename(target),
        None if stat.S_ISDIR(status.st_mode) else status.st_size,
    )


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
