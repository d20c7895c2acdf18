"""Renaming of several files in one step, which survives errors and kills.

The renames are written to a journal first. Until then the files that are to be replaced are
untouched. From then on the renames can only be completed: by the process that wrote the journal,
or, if it was killed, by ``torchrec-io clean``. A journal may come with data from anywhere, so
readers and writers only refuse a folder that has one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..checks import printable
from ..errors import InterruptedCommitError
from . import file_lock
from .pending_file import sync_folder
from .temporary import Owner, find_job_folder, owner_of, this_process

logger = logging.getLogger("torchrec_io")

# One name for each folder: to look for a journal takes one system call, however many files there
# are, and commits to a folder take turns.
JOURNAL_NAME = ".torchrec_io.commit"

_VERSION = 1
_MAX_BYTES = 1 << 27  # names of 99,999 shards and their indexes fit in
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
# Where locks are not supported, a process elsewhere is taken for dead after this time.
_SECONDS_TO_COMMIT = 3600


class Rename(NamedTuple):
    """A file or folder that gets its name.

    Attributes:
        temporary: Name in the folder, until it is renamed: a temporary one, or that of a file in a
            folder with a temporary name or in that of a job.
        target: New name in the folder.
        size: Size of the file in bytes; None for a folder.
    """

    temporary: str
    target: str
    size: int | None


class _Content(NamedTuple):
    owner: Owner
    stale: list[str]
    renames: list[Rename]


class CommitJournal:
    """The journal of a commit.

    The life cycle is: :meth:`write`, then :meth:`follow`; or :meth:`revoke` after an error of
    :meth:`write`.

    Args:
        folder: Folder of all the files.
        stale: Names of files to remove before anything is renamed.
        renames: Renames, in order. Existing files of these names are removed before the first
            rename, in reverse order: other programs then never see a mixture of old and new files.

    Attributes:
        path: Path of the journal.
    """

    def __init__(self, folder: str, stale: Sequence[str], renames: Sequence[Rename]) -> None:
        self.path = os.path.join(folder, JOURNAL_NAME)
        self._folder = folder
        self._content = _Content(this_process(), list(stale), list(renames))
        self._descriptor: int | None = None
        self._has_begun = False

    def write(self) -> None:
        """Write the journal to storage. From then on other processes follow it.

        Raises:
            InterruptedCommitError: If an earlier commit to the folder cannot be completed.
            OSError: If the system refuses a call.
        """
        self._descriptor = _create_locked(self._folder)
        data = memoryview(_encode(self._content))
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)
        sync_folder(self._folder)

    def follow(self) -> None:
        """Rename all files, and remove the journal.

        Raises:
            OSError: If the system refuses a call.
        """
        try:
            for _ in _steps(self._folder, self._content, self.path):
                self._has_begun = True
            os.unlink(self.path)
        except OSError as error:
            if not self._has_begun:
                raise
            raise OSError(
                error.errno,
                f"{error.strerror}; the new files are complete, but not all of them have their "
                f"names. {self.path!r} lists them. To complete the commit, run torchrec-io clean "
                f"{self._folder or os.curdir}",
                error.filename2 or error.filename or self.path,
            ) from error
        self._unlock()

    def revoke(self) -> bool:
        """Remove the journal, unless a file was removed or renamed.

        Returns:
            Whether it is certain that nobody follows the journal.
        """
        if self._descriptor is None or self._has_begun:
            self._unlock()
            return not self._has_begun
        is_gone = False
        # Either of the two suffices: an incomplete journal is not followed.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            is_gone = True
        with contextlib.suppress(OSError):
            os.unlink(self.path)
            is_gone = True
        with contextlib.suppress(OSError):
            sync_folder(self._folder)
        self._unlock()
        return is_gone

    def _unlock(self) -> None:
        if self._descriptor is not None:
            _unlock(self._descriptor)
            self._descriptor = None


def refuse_interrupted(folder: str) -> bool:
    """Refuse a folder if a process was interrupted while it replaced files there.

    If a living process is at it, wait for that process. Nothing in the folder is changed.

    Args:
        folder: Path of a folder.

    Returns:
        Whether a commit ended meanwhile, so that a listing of the folder may have changed.

    Raises:
        InterruptedCommitError: If there is the journal of an unfinished commit, or another file of
            its name.
        OSError: If the system cannot tell whether there is a journal.
    """
    path = os.path.join(folder, JOURNAL_NAME)
    has_ended = False
    while _exists(path):
        try:
            with _locked(path) as (descriptor, _):
                if _is_file(descriptor, path):
                    if _read(descriptor, path) is None:
                        return has_ended  # the process was killed before it decided the commit
                    raise InterruptedCommitError(
                        "a process was interrupted while it replaced files of this folder, so some "
                        "of them may be missing. If you wrote them, run torchrec-io clean "
                        f"{folder or os.curdir}, which completes the work; otherwise remove this "
                        "file",
                        path=path,
                    )
        except FileNotFoundError:
            pass  # removed by the process that had locked it
        except OSError as error:
            raise InterruptedCommitError(
                f"the journal of a commit is not a file that can be read ({error.strerror}); "
                "remove it",
                path=path,
            ) from error
        has_ended = True
    return has_ended


def finish_interrupted(folder: str) -> bool:
    """Complete the commit to a folder that was interrupted, if there is one, as the user asks.

    If a living process is at it, wait for that process.

    Args:
        folder: Path of a folder.

    Returns:
        Whether a commit was completed, so that a listing of the folder may have changed.

    Raises:
        InterruptedCommitError: If the commit cannot be completed.
        OSError: If the system cannot tell whether there is a journal.
    """
    path = os.path.join(folder, JOURNAL_NAME)
    has_found = False
    while _exists(path):
        has_found = True
        try:
            with _locked(path) as (descriptor, is_writable):
                if _is_file(descriptor, path) and not _finish(
                    folder, path, descriptor, is_writable
                ):
                    return False
        except FileNotFoundError:
            break  # completed by the process that had locked it
    return has_found


def has_interrupted(folder: str) -> bool:
    """Return whether a folder has the journal of a commit."""
    return _exists(os.path.join(folder, JOURNAL_NAME))


def is_committing(folder: str) -> bool:
    """Return whether a living process is at the commit to a folder."""
    return file_lock.is_locked(os.path.join(folder, JOURNAL_NAME))


def pending_names(folder: str) -> set[str]:
    """Return the names that the journal of a folder, if there is one, needs.

    They are temporary names of files, and names of folders that have such files.

    Raises:
        InterruptedCommitError: If the journal cannot be read.
    """
    with contextlib.suppress(FileNotFoundError), _opened(folder) as descriptor:
        content = _read(descriptor, os.path.join(folder, JOURNAL_NAME))
        if content is not None:
            return {rename.temporary.partition("/")[0] for rename in content.renames}
    return set()


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    descriptor = _open(os.path.join(folder, JOURNAL_NAME), os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _finish(folder: str, path: str, descriptor: int, is_writable: bool) -> bool:
    """Complete the commit of a journal that this process has locked, and remove the journal.

    Returns:
        Whether this was possible. If not, nothing of the commit was done yet.
    """
    content = _read(descriptor, path)
    if not is_writable:
        if content is None:
            return False  # the process was killed before it decided the commit
        raise InterruptedCommitError(
            "the process that wrote files to this folder was interrupted, and this process may not "
            f"complete its work; run torchrec-io clean {folder or os.curdir} as a user who may "
            "write to the folder",
            path=path,
        )
    try:
        if content is not None:
            _check_owner(folder, descriptor, path)
            for _ in _steps(folder, content, path):
                pass
        os.unlink(path)
    except OSError as error:
        raise InterruptedCommitError(
            "the process that wrote files to this folder was interrupted, and completing its work "
            f"failed ({error}); run torchrec-io clean {folder or os.curdir}",
            path=path,
        ) from error
    if content is not None:
        logger.warning("completed the interrupted commit to %s", printable(folder or os.curdir))
    return True


def _steps(folder: str, content: _Content, path: str) -> Iterator[None]:
    """Do what is left of a commit, which may have been interrupted anywhere, also several times.

    A call may fail although it did its work, if the answer of a file server is lost.

    Args:
        folder: Folder of the files.
        content: Content of the journal.
        path: Path of the journal.

    Yields:
        None, after each change of a name.
    """
    left = [rename for rename in content.renames if _is_left(folder, rename, path)]
    old = [rename.target for rename in reversed(left) if rename.size is not None]
    for name in (*content.stale, *old):
        if remove_file(os.path.join(folder, name)):
            yield
    for rename in left:
        temporary = os.path.join(folder, rename.temporary)
        try:
            _replace(folder, rename)
        except OSError:
            if _exists(temporary):
                raise
        yield
    sync_folder(folder)


def _replace(folder: str, rename: Rename) -> None:
    """Rename a file. The folder that has it must not be a link, which could lead anywhere."""
    target = os.path.join(folder, rename.target)
    parent, name = os.path.split(rename.temporary)
    if not parent:
        os.replace(os.path.join(folder, name), target)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(os.path.join(folder, parent), flags)
    try:
        os.replace(name, target, src_dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _is_left(folder: str, rename: Rename, path: str) -> bool:
    """Return whether a file still has its temporary name."""
    for name in (rename.temporary, rename.target):
        try:
            size = os.lstat(os.path.join(folder, name)).st_size
        except FileNotFoundError:
            continue
        if rename.size in (None, size):
            return name == rename.temporary
    raise InterruptedCommitError(
        "the process that wrote files to this folder was interrupted, and a part of the new files "
        f"is missing: {rename.temporary!r}, which becomes {rename.target!r}. Remove the journal, "
        "and write the files again",
        path=path,
    )


def remove_file(path: str) -> bool:
    """Remove a file, and return whether it existed."""
    try:
        os.unlink(path)
    except OSError as error:
        # The name of an index may be too long; then there is no such file.
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return False
        if _exists(path):
            raise
    return True


# ---- the file ----


def _encode(content: _Content) -> bytes:
    fields = {
        "version": _VERSION,
        "machine": content.owner.machine,
        "process": content.owner.process,
        "stale": content.stale,
        "renames": content.renames,
    }
    body = json.dumps(fields).encode()
    return b"%08x %s\n" % (_crc_of(body), body)


def _read(descriptor: int, path: str) -> _Content | None:
    """Return the content of a journal. None if it was not completely written.

    Raises:
        InterruptedCommitError: If the journal is of a newer release, or names files elsewhere.
    """
    data = b""
    while len(data) <= _MAX_BYTES and (more := os.pread(descriptor, _MAX_BYTES, len(data))):
        data += more
    check, _, body = data.removesuffix(b"\n").partition(b" ")
    if not data.endswith(b"\n") or check != b"%08x" % _crc_of(body):
        return None
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict) and fields.get("version") != _VERSION:
        raise InterruptedCommitError(
            "the process that wrote files to this folder was interrupted, and it was of another "
            "release of torchrec_io; run torchrec-io clean of that release",
            path=path,
        )
    return _checked(fields, path)


def _checked(fields: Any, path: str) -> _Content:
    """Return the content of a journal, which must not lead out of the folder."""
    try:
        content = _Content(
            Owner(str(fields["machine"]), int(fields["process"])),
            [str(name) for name in fields["stale"]],
            [Rename(*rename) for rename in fields["renames"]],
        )
        names = [*content.stale, *(rename.target for rename in content.renames)]
        os.fsencode("".join(names))  # no surrogates
        is_valid = all(
            name not in ("", ".", "..") and not {"/", "\0"} & {*name} for name in names
        ) and all(
            _is_temporary(rename.temporary)
            and (rename.size is None or isinstance(rename.size, int))
            for rename in content.renames
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise InterruptedCommitError(
            "the journal of a commit has names that are not valid; remove it", path=path
        )
    return content


def _is_temporary(name: str) -> bool:
    """Return whether a name is a temporary one, or that of a file in a hidden folder."""
    folder, _, inside = name.partition("/")
    if not inside:
        return owner_of(name) is not None
    is_hidden = owner_of(folder) is not None or find_job_folder(folder, "") == folder
    return is_hidden and inside not in (".", "..") and "/" not in inside


def _crc_of(body: bytes) -> int:
    return _core.crc32c(np.frombuffer(body, np.uint8))


def _check_owner(folder: str, descriptor: int, path: str) -> None:
    """Check that following the journal does nothing for a user who could not do it."""
    owner = os.fstat(descriptor).st_uid
    if owner not in (os.geteuid(), 0, os.stat(folder or os.curdir).st_uid):
        raise InterruptedCommitError(
            "the process that wrote files to this folder was interrupted, and it was of another "
            f"user ({owner}); run torchrec-io clean {folder} as that user",
            path=path,
        )


# ---- the lock ----


def _create_locked(folder: str) -> int:
    """Create the journal of a folder, empty and locked, and return its descriptor."""
    path = os.path.join(folder, JOURNAL_NAME)
    while True:
        refuse_interrupted(folder)
        try:
            descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            _remove_undecided(path)
            continue
        try:
            _lock(descriptor, fcntl.LOCK_EX, path)
            if _is_file(descriptor, path):
                return descriptor
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return descriptor
            os.close(descriptor)
            raise
        os.close(descriptor)  # another process took it for one of a dead process


def _remove_undecided(path: str) -> None:
    """Remove a journal whose process was killed before it decided the commit."""
    with contextlib.suppress(FileNotFoundError), _locked(path) as (descriptor, _):
        if _is_file(descriptor, path) and _read(descriptor, path) is None:
            os.unlink(path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[tuple[int, bool]]:
    """Open and lock a journal, after the process that has locked it.

    Yields:
        The descriptor, and whether the journal can be written.

    Raises:
        FileNotFoundError: If it was removed.
    """
    is_writable = True
    try:
        descriptor = _open(path, os.O_RDWR)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        is_writable = False
        descriptor = _open(path, os.O_RDONLY)
    try:
        try:
            # NFS locks a file exclusively only if it is open for writing.
            _lock(descriptor, fcntl.LOCK_EX if is_writable else fcntl.LOCK_SH, path)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _refuse_living_owner(descriptor, path)
        yield descriptor, is_writable
    finally:
        _unlock(descriptor)


def _refuse_living_owner(descriptor: int, path: str) -> None:
    """Check, where locks are not supported, that the owner of a journal is dead."""
    content = _read(descriptor, path)
    state = "elsewhere" if content is None else content.owner.state
    age = time.time() - os.fstat(descriptor).st_mtime
    if state == "alive" or (state == "elsewhere" and age < _SECONDS_TO_COMMIT):
        raise InterruptedCommitError(
            "another process is writing files to this folder, or was interrupted; try again later",
            path=path,
        )


def _lock(descriptor: int, kind: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.info("waiting for the process that renames the files of %s", printable(path))
        fcntl.flock(descriptor, kind)


def _unlock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked processes have the file open, too
    os.close(descriptor)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise
    except ValueError:  # a name with a null character
        return False
    return True


def _is_file(descriptor: int, path: str) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
