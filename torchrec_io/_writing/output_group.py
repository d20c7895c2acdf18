"""Output files that get their names when all of them are complete."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Self, TypeAlias, cast

from .._records.index_file import SUFFIX
from .._storage.compression import COMPRESSIONS, Compression
from .._storage.file_lock import file_lock
from .._storage.folders import make_folder, stamps_in
from .._storage.location import Location
from .._storage.outputs import exists_now, names_in, open_pending, refuse_existing, split_output
from .._storage.pending_file import PendingFile, output_exists, sync_folder
from .._storage.remote import object_commit
from .._storage.remote.adopted_object import AdoptedObject
from .._storage.remote.pending_object import PendingObject
from .._storage.stamp import Stamp
from ..checks import check_choice, printable
from .adopted_file import AdoptedFile
from .frame_writer import BUFFER_BYTES, FrameWriter
from .named_file import PendingStream
from .pending_folder import PendingFolder

_Local: TypeAlias = PendingFile | PendingFolder | AdoptedFile
_Output: TypeAlias = _Local | PendingObject | AdoptedObject

logger = logging.getLogger("torchrec_io")

_COMPRESSIONS = (None, *COMPRESSIONS)
_LOCK_NAME = ".torchrec_io.lock"


class OutputGroup:
    """Output files that get their names when all of them are complete.

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
    in one folder. Objects of a store have no temporary names: an upload that is not completed
    cannot be seen.

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
        self._others: list[_Output] = []
        self._targets: set[str] = set()
        self._removed: list[str] = []
        self._folder: Location | None = None
        self._present: set[str] | None = None  # names in a folder of a store, once it was listed
        self._adoptable: dict[Location, dict[str, Stamp]] = {}  # objects in folders, by name

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
        location: Location,
        compression: Compression | None = None,
        *,
        index: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
        has_name: bool = True,
    ) -> FrameWriter:
        """Open a TFRecord file. Several threads may open files at the same time.

        Args:
            location: Location of the file. It may still be changed before the group is committed,
                by setting :attr:`FrameWriter.location`.
            compression: ``None``, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
            index: Whether the file gets an index ``PATH.tfidx``.
            buffer_bytes: Number of bytes of small records that are gathered before they are framed.
            has_name: Whether the file keeps this location, as far as is known.

        Raises:
            ValueError: If the compression is invalid or the group already has this path.
            FileExistsError: If the file exists and may not be replaced.
            OSError: If the file cannot be created.
        """
        check_choice("compression", compression, _COMPRESSIONS)
        self._add_target(location)
        file = FrameWriter(
            location, compression, index=index, buffer_bytes=buffer_bytes, has_name=has_name
        )
        self._records.append(file)
        return file

    def open_file(self, location: Location) -> BinaryIO:
        """Open a file of any other kind. It must be closed before the group is committed.

        Raises:
            ValueError: If the group already has this path.
            FileExistsError: If the file exists and may not be replaced.
            OSError: If the file cannot be created.
        """
        self._add_target(location)
        file = open_pending(location)
        self._others.append(file)
        return PendingStream(file).buffered()

    def adopt(self, complete: Location, target: Location, *, index: bool) -> None:
        """Take over a TFRecord file that is complete and on storage under another name.

        It keeps its name until the group is committed, and if that fails. Then a file is renamed,
        and an object is copied.

        Args:
            complete: Location of the file or object, in a folder with a temporary name or in that
                of a job, beside the target.
            target: Location once the group is committed.
            index: Whether there is an index beside the file, which is taken over, too.

        Raises:
            ValueError: If the group already has this path.
            FileExistsError: If the target exists and may not be replaced.
        """
        self._add_target(target)
        self._others.append(self._adopted(complete, target))
        if index:
            self._others.append(self._adopted(complete.beside(SUFFIX), target.beside(SUFFIX)))
        else:
            self._removed.append(target.beside(SUFFIX).name)

    def open_folder(self, location: Location) -> str:
        """Create a folder, which must be new or empty when the group is committed.

        Returns:
            Temporary name of the folder.

        Raises:
            ValueError: If the group already has this path.
            OSError: If the folder cannot be created.
        """
        self._add_target(location)
        folder = PendingFolder(location)
        self._others.append(folder)
        return folder.temporary

    def remove(self, files: Iterable[Location]) -> None:
        """Remove other files of the folder, and their indexes, in the same step as the commit."""
        self._removed += [name for file in files for name in (file.name, file.name + SUFFIX)]

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

        A single output replaces an old one in one step: the old index is removed, then the file is
        renamed, then its index. Whenever that ends, the old or the new file is there, with its own
        index or without one.

        Of several outputs, the old files are removed before the first new one is renamed. So a kill
        leaves old files, or new ones, which may be too few, and never a mixture. Commits to a
        folder of files take turns.

        Raises:
            FileExistsError: If there is a file of one of the names, and it may not be replaced; or
                if another process wrote objects of the same names at the same time.
            OSError: If the system refuses a write, a removal or a renaming. No new file is left.
        """
        self.prepare()
        if self._folder is None:
            return
        stale = [file.path + SUFFIX for file in self._records] + self._removed
        pending: list[tuple[_Output, str]] = []
        for records in self._records:
            pending += records.pending
        pending += [(other, other.path) for other in self._others]
        is_single = not self._removed and len(self._records) + len(self._others) == 1
        if self._folder.local_path is None:
            objects = cast("Sequence[tuple[object_commit.NewObject, str]]", pending)
            object_commit.commit(
                self._folder, objects, stale, must_be_new=not self.force, is_single=is_single
            )
            return
        local = cast("Sequence[tuple[_Local, str]]", pending)
        with file_lock(self._folder.child(_LOCK_NAME).name, self._wait):
            if not self.force:
                for output in (*self._records, *self._others):
                    refuse_existing(Location(output.path))  # it may be new
            if is_single:
                for path in stale:
                    _remove_file(path)
                for file, path in local:
                    file.rename(path)
            else:
                _replace_files(local, stale)
            sync_folder(self._folder.name)

    def _wait(self) -> None:
        logger.info("waiting for the process that renames files in %s", printable(self._folder))

    def discard(self) -> None:
        """Remove all files that were not renamed."""
        for output in (*self._records, *self._others):
            output.discard()

    def _adopted(self, complete: Location, target: Location) -> AdoptedFile | AdoptedObject:
        if complete.local_path is not None:
            return AdoptedFile(complete.name, target.name)
        folder = complete.parent
        if folder not in self._adoptable:
            self._adoptable[folder] = stamps_in(folder)
        size = self._adoptable[folder][complete.basename].size
        return AdoptedObject(complete, target, size)

    def _add_target(self, location: Location) -> None:
        """Add an output."""
        folder, name = split_output(location)
        target = folder.child(name)
        if target.name in self._targets:
            raise ValueError(f"{target!r} would be written twice; choose another name")
        if self._folder is None:
            if self._create_folders:
                make_folder(folder)
            self._folder = folder
            if folder.local_path is None:
                exists_now(target)  # wrong credentials are an error now, not after all was written
        elif folder.name != self._folder.name:
            known = self._folder.name or os.curdir
            raise ValueError(f"all outputs must be in the folder {known!r}, got {target!r}")
        if not self.force:
            self._refuse_existing(folder, target)
        self._targets.add(target.name)

    def _refuse_existing(self, folder: Location, target: Location) -> None:
        """Raise an error if an output exists. A store is asked for all names from the second on."""
        if folder.local_path is not None or not self._targets:
            refuse_existing(target)
            return
        if self._present is None:
            self._present = names_in(folder)
        if target.basename in self._present:
            raise output_exists(target)


def _replace_files(pending: Sequence[tuple[_Local, str]], stale: Iterable[str]) -> None:
    """Remove old files, then rename all new ones, or none."""
    replaced = [path for output, path in pending if not isinstance(output, PendingFolder)]
    removed = []
    try:
        for path in (*stale, *replaced):
            if _remove_file(path):
                removed.append(path)
        for output, path in pending:
            output.rename(path)
    except BaseException as error:
        for output, path in pending:
            if not os.path.lexists(output.temporary):  # it was renamed
                with contextlib.suppress(OSError):
                    (shutil.rmtree if isinstance(output, PendingFolder) else os.unlink)(path)
        told = "the old files were removed before: write them again"
        if removed and isinstance(error, OSError):
            raise OSError(error.errno, f"{error.strerror}; {told}", error.filename) from error
        if removed:  # such as Ctrl-C
            logger.warning("%s: %s", printable(removed[0]), told)
        raise


def _remove_file(path: str) -> bool:
    """Remove a file, and return whether it existed."""
    try:
        os.unlink(path)
    except OSError as error:
        # The name of an index may be too long; then there is no such file.
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return False
        raise
    return True
