"""Removal of what killed writers left, and completion of what they had not finished."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..errors import InterruptedCommitError
from ..storage.commit_journal import (
    JOURNAL_NAME,
    finish_interrupted,
    has_interrupted,
    is_committing,
    pending_names,
)
from ..storage.file_lock import is_locked
from ..storage.folders import lock_of
from ..storage.local import StrPath
from ..storage.opening import is_remote, public_name
from ..storage.remote.options import RemoteOptions, StorageOptions
from ..storage.temporary import (
    Owner,
    OwnerState,
    find_job_folder,
    is_temporary_for,
    job_lock,
    owner_of,
)

LeftoverKind: TypeAlias = Literal["file", "folder", "commit"]
LeftoverAction: TypeAlias = Literal["remove", "complete", "keep"]


@dataclass(frozen=True)
class Leftover:
    """A temporary file or folder of a writer, or the journal of a commit.

    Attributes:
        path: Path of the file or folder.
        kind: ``"file"``, ``"folder"``, or ``"commit"`` for a journal.
        size: Size in bytes, with everything in a folder.
        action: ``"remove"``, ``"complete"`` for a commit, or ``"keep"``.
        reason: Reason for the action.
        error: Error that prevented the action; None if it was done, or is only planned.
    """

    path: str
    kind: LeftoverKind
    size: int
    action: LeftoverAction
    reason: str
    error: str | None = None


def clean(
    paths: StrPath | Iterable[StrPath],
    *,
    dry_run: bool = False,
    older_than: float = 24.0,
    storage_options: StorageOptions = None,
) -> list[Leftover]:
    """Remove temporary files of killed writers, and complete commits that they had not finished.

    Files of a living process are kept. So is the folder ``.NAME-parts-DIGEST`` of a job on a
    cluster while the job runs, and for some hours after that, because the job can be continued. In
    a store, what there is of an unfinished commit is deleted.

    Args:
        paths: Folders, which are searched with all folders in them; or starts of the paths of
            outputs, such as ``data/train``, to consider only their temporary files. A URL of a
            store is taken for a folder.
        dry_run: Only report what would be done.
        older_than: Hours since the last write after which a file of a process on another machine,
            or in another container, is removed, because it is not known whether such a process
            lives; and the folder of a job that does not run.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Returns:
        What was found.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If ``older_than`` is negative.
    """
    if not older_than >= 0:
        raise ValueError(f"older_than must be at least 0 hours, got {older_than}")
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    cleaner = _Cleaner(dry_run, older_than * 3600)
    remote = RemoteOptions.of(storage_options) or RemoteOptions()
    for name in dict.fromkeys(public_name(name, remote) for name in names):
        if is_remote(name):
            cleaner.clean_store(name.rstrip("/"), remote)
        elif os.path.isdir(name):
            cleaner.search(name)
        else:
            cleaner.clean_folder(os.path.dirname(name), os.path.basename(name))
    return cleaner.found


class _Found(NamedTuple):
    """A temporary file or folder, or that of a job.

    Attributes:
        path: Path or URL.
        kind: "file" or "folder".
        size: Size in bytes, with everything in a folder.
        written: Time of the last write, in seconds.
        remove: Function that removes it.
    """

    path: str
    kind: LeftoverKind
    size: int
    written: float
    remove: Callable[[], object]


class _Cleaner:
    def __init__(self, dry_run: bool, max_age: float) -> None:
        self.found: list[Leftover] = []
        self._dry_run = dry_run
        self._max_age = max_age
        self._seen: set[str] = set()

    def search(self, folder: str) -> None:
        """Clean a folder and all folders in it."""
        self.clean_folder(folder)
        with os.scandir(folder) as entries:
            inner = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        for path in inner:
            name = os.path.basename(path)
            if owner_of(name) is None and find_job_folder(name, "") is None:
                self.search(path)

    def clean_folder(self, folder: str, start: str = "") -> None:
        """Clean a folder.

        Args:
            folder: Path of the folder.
            start: Start of the names of the outputs whose temporary files are considered.
        """
        with os.scandir(folder or os.curdir) as entries:
            all_names = sorted(entry.name for entry in entries)
        names = [name for name in all_names if is_temporary_for(name, start)]
        jobs = dict.fromkeys(find_job_folder(name, start) for name in all_names)
        try:
            pending = pending_names(folder)
        except (OSError, InterruptedCommitError) as error:
            self._add_journal(folder, "keep", "it cannot be read", error=str(error))
            return
        if has_interrupted(folder):
            self._complete(folder)
        needed = pending if has_interrupted(folder) else ()
        for name in names:
            path = os.path.join(folder, name)
            # Files of a commit have got their names, or are still needed for it.
            if name not in needed and os.path.lexists(path):
                self._consider(path)
        for job in jobs:
            if job is not None and job not in needed:
                self._consider_job(os.path.join(folder, job))

    def clean_store(self, folder: str, remote: RemoteOptions) -> None:
        """Clean a folder of a store and all folders in it."""
        from ..storage.remote.object_commit import list_folder  # noqa: PLC0415  # not for local
        from ..storage.remote.object_lock import read_lock  # noqa: PLC0415  # as above
        from ..storage.remote.upload import delete_objects  # noqa: PLC0415  # as above

        listed = sorted(list_folder(folder, remote, is_recursive=True).items())
        for top, objects in itertools.groupby(listed, lambda item: _top_of(item[0])):
            infos = dict(objects)
            is_folder = any(each.startswith(f"{top}/") for each in infos)
            first = top if is_folder else next(iter(infos))
            url, name = f"{folder}/{first}", os.path.basename(top)
            found = _Found(
                url,
                "folder" if is_folder else "file",
                sum(info.size for info in infos.values()),
                max(float(info.mtime) for info in infos.values()),
                functools.partial(delete_objects, [f"{folder}/{each}" for each in infos], remote),
            )
            if name == JOURNAL_NAME:
                self._settle(os.path.dirname(url), found.size, remote)
            elif find_job_folder(name, "") is not None:
                lock = read_lock(job_lock(f"{folder}/{top}"), remote)
                self._add_job(found, remote, is_used=lock is not None and lock.is_held)
            elif (owner := owner_of(name)) is not None:
                action, reason = self._decide(owner, found.written)
                self._add(url, found.kind, action, reason, size=found.size, work=found.remove)

    def _settle(self, folder: str, size: int, remote: RemoteOptions) -> None:
        """Settle an interrupted commit to a folder of a store."""
        from ..storage.remote import object_commit  # noqa: PLC0415  # as above

        url = f"{folder}/{JOURNAL_NAME}"
        try:
            journal = object_commit.read_journal(folder, remote)
        except InterruptedCommitError as error:
            self._add(url, "commit", "keep", "it cannot be read", size=size, error=str(error))
            return
        if journal is not None:
            action, reason = self._decide(journal.owner, time.time() - journal.age, journal.state)
            work = functools.partial(object_commit.settle, folder, journal, remote)
            self._add(url, "commit", action, reason, size=size, work=work)

    def _complete(self, folder: str) -> None:
        if is_committing(folder):
            self._add_journal(folder, "keep", "its process is renaming files")
            return
        self._add_journal(
            folder,
            "complete",
            "its process was interrupted",
            work=lambda: finish_interrupted(folder),
        )

    def _add_journal(
        self,
        folder: str,
        action: LeftoverAction,
        reason: str,
        *,
        work: Callable[[], object] | None = None,
        error: str | None = None,
    ) -> None:
        path = os.path.join(folder, JOURNAL_NAME)
        self._add(path, "commit", action, reason, work=work, error=error)

    def _consider(self, path: str) -> None:
        owner = owner_of(os.path.basename(path))
        assert owner is not None
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        written = max((status.st_mtime for status in _statuses(path)), default=time.time())
        action, reason = self._decide(owner, written)

        def remove() -> None:
            (shutil.rmtree if is_folder else os.unlink)(path)

        self._add(path, "folder" if is_folder else "file", action, reason, work=remove)

    def _consider_job(self, path: str) -> None:
        """Consider the folder of a job, or the lock of one that has no folder."""
        lock = job_lock(path)
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        if not is_folder and not os.path.lexists(lock):
            return  # a file that only has such a name
        statuses = list(_statuses(path if is_folder else lock))
        found = _Found(
            path if is_folder else lock,
            "folder" if is_folder else "file",
            sum(status.st_size for status in statuses),
            max((status.st_mtime for status in statuses), default=time.time()),
            functools.partial(shutil.rmtree, path) if is_folder else lambda: None,
        )
        self._add_job(found, RemoteOptions(), is_used=is_locked(lock))

    def _add_job(self, found: _Found, remote: RemoteOptions, *, is_used: bool) -> None:
        """Add the folder of a job, or the lock of one that has no folder."""
        age = time.time() - found.written
        action: LeftoverAction = "keep"
        reason = "a job uses it"
        if not is_used:
            action = "remove" if age > self._max_age else "keep"
            reason = f"a job that does not run wrote it {age / 3600:.1f} hours ago"
        lock = job_lock(found.path) if found.kind == "folder" else found.path

        def remove() -> None:
            with lock_of(lock, remote, functools.partial(_refuse_used, found.path)):
                found.remove()

        self._add(found.path, found.kind, action, reason, size=found.size, work=remove)

    def _decide(
        self, owner: Owner, written: float, state: OwnerState | None = None
    ) -> tuple[LeftoverAction, str]:
        state = state or owner.state
        if state == "alive":
            return "keep", f"process {owner.process} may still write it"
        if state == "dead":
            return "remove", f"process {owner.process} has ended"
        age = time.time() - written
        reason = f"a process on another machine wrote it {age / 3600:.1f} hours ago"
        return "remove" if age > self._max_age else "keep", reason

    def _add(
        self,
        path: str,
        kind: LeftoverKind,
        action: LeftoverAction,
        reason: str,
        *,
        size: int | None = None,
        work: Callable[[], object] | None = None,
        error: str | None = None,
    ) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        if size is None:
            size = sum(status.st_size for status in _statuses(path))
        if work is not None and action != "keep" and not self._dry_run:
            try:
                work()
            except (OSError, InterruptedCommitError) as failure:
                error = str(failure)
        self.found.append(Leftover(path, kind, size, action, reason, error))


def _top_of(name: str) -> str:
    """Return the first folder of a name that is a temporary one or that of a job, or the name.

    The lock of a job belongs to its folder.
    """
    parts = name.split("/")
    for number, part in enumerate(parts):
        job = find_job_folder(part, "")
        if job is not None or owner_of(part) is not None:
            return "/".join([*parts[:number], job or part])
    return name


def _statuses(path: str) -> Iterator[os.stat_result]:
    """Yield the status of a file or folder, and of all in it. Others may remove files meanwhile."""
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    for each in itertools.chain([path], paths):
        with contextlib.suppress(FileNotFoundError):
            yield os.lstat(each)


def _refuse_used(path: str) -> None:
    raise BlockingIOError(errno.EWOULDBLOCK, "a job uses the folder", path)
