"""Removal of what killed writers left, and completion of what they had not finished."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..errors import InterruptedCommitError
from ..storage.commit_journal import (
    JOURNAL_NAME,
    finish_interrupted,
    has_interrupted,
    is_locked,
    pending_names,
)
from ..storage.local import StrPath
from ..storage.temporary import Owner, is_temporary_for, owner_of

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
    paths: StrPath | Iterable[StrPath], *, dry_run: bool = False, older_than: float = 24.0
) -> list[Leftover]:
    """Remove temporary files of killed writers, and complete commits that they had not finished.

    Files of a living process are kept.

    Args:
        paths: Folders, which are searched with all folders in them; or starts of the paths of
            outputs, such as ``data/train``, to consider only their temporary files.
        dry_run: Only report what would be done.
        older_than: Hours since the last write after which a file of a process on another machine,
            or in another container, is removed. It is not known whether such a process lives.

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
    for name in dict.fromkeys(os.fspath(name) for name in names):
        if os.path.isdir(name):
            cleaner.search(name)
        else:
            cleaner.clean_folder(os.path.dirname(name), os.path.basename(name))
    return cleaner.found


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
            if owner_of(os.path.basename(path)) is None:
                self.search(path)

    def clean_folder(self, folder: str, start: str = "") -> None:
        """Clean a folder.

        Args:
            folder: Path of the folder.
            start: Start of the names of the outputs whose temporary files are considered.
        """
        with os.scandir(folder or os.curdir) as entries:
            names = sorted(entry.name for entry in entries if is_temporary_for(entry.name, start))
        try:
            pending = pending_names(folder)
        except (OSError, InterruptedCommitError) as error:
            self._add_journal(folder, "keep", "it cannot be read", error=str(error))
            return
        if has_interrupted(folder):
            self._complete(folder)
        for name in names:
            path = os.path.join(folder, name)
            # Files of a commit have got their names, or are still needed for it.
            if name not in pending and os.path.lexists(path):
                self._consider(path)

    def _complete(self, folder: str) -> None:
        if is_locked(folder):
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
        action, reason = self._decide(path, owner)

        def remove() -> None:
            (shutil.rmtree if is_folder else os.unlink)(path)

        self._add(path, "folder" if is_folder else "file", action, reason, work=remove)

    def _decide(self, path: str, owner: Owner) -> tuple[LeftoverAction, str]:
        state = owner.state
        if state == "alive":
            return "keep", f"process {owner.process} may still write it"
        if state == "dead":
            return "remove", f"process {owner.process} has ended"
        age = time.time() - max(status.st_mtime for status in _statuses(path))
        reason = f"a process on another machine wrote it {age / 3600:.1f} hours ago"
        return "remove" if age > self._max_age else "keep", reason

    def _add(
        self,
        path: str,
        kind: LeftoverKind,
        action: LeftoverAction,
        reason: str,
        *,
        work: Callable[[], object] | None = None,
        error: str | None = None,
    ) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        size = sum(status.st_size for status in _statuses(path))
        if work is not None and action != "keep" and not self._dry_run:
            try:
                work()
            except (OSError, InterruptedCommitError) as failure:
                error = str(failure)
        self.found.append(Leftover(path, kind, size, action, reason, error))


def _statuses(path: str) -> Iterator[os.stat_result]:
    """Yield the status of a file or folder, and of everything in it."""
    yield os.lstat(path)
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.lstat(os.path.join(folder, name))
