"""Objects that get their names in one step, as far as readers of this package can see.

Stores have no renaming and no locks. So a commit of several objects first writes a journal: an
object that must be new, so that commits to a folder take turns. While it is there, readers that
list the folder refuse it. The commit then deletes the objects that it replaces, completes the new
ones, and deletes the journal last. It writes the journal again every minute meanwhile, so that
others see that it lives. A commit that was interrupted cannot be completed, because the parts of
the new objects are lost with the process; what there is of it is deleted by :func:`settle`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ...errors import InterruptedCommitError
from ..commit_journal import JOURNAL_NAME
from ..digest import digest_text
from ..pending_file import output_exists
from ..temporary import Owner, OwnerState, this_process
from ..thread_pool import map_in_threads
from .adopted_object import AdoptedObject
from .messages import ObjectInfo
from .object_lock import kept_fresh
from .options import RemoteOptions
from .pending_object import PendingObject
from .process import access, ask_again
from .remote_file import RemoteFile, stamp_of_info
from .upload import check_writable, delete_objects, exists, put_object
from .urls import is_url, split_url

_VERSION = 1
_MAX_BYTES = 1 << 26  # names of 99,999 shards and their indexes fit in

NewObject: TypeAlias = "PendingObject | AdoptedObject"

_committing: set[str] = set()  # folders, in this process


class ObjectJournal(NamedTuple):
    """The journal of a commit.

    Attributes:
        owner: The process that wrote it.
        state: Whether that is still at the commit, as far as is known.
        age: Seconds since it was last written, by the clocks of the store and of this machine.
        targets: Size of each new object in bytes, by its name.
        old: ETag, or version, of each object that is deleted, by its name.
    """

    owner: Owner
    state: OwnerState
    age: float
    targets: dict[str, int]
    old: dict[str, str]


def list_folder(
    folder: str, options: RemoteOptions, *, is_recursive: bool = False
) -> dict[str, ObjectInfo]:
    """Return the objects of a folder as they are now, by their names in it.

    Args:
        folder: Public URL, without a slash at its end.
        options: Options for remote objects.
        is_recursive: Whether the objects in folders of the folder are listed, too.
    """
    key = access(f"{folder}/", options).key
    try:
        infos: Sequence[ObjectInfo] = ask_again(folder, options, "list", key, is_recursive)
    except FileNotFoundError:
        return {}
    start = len(folder) + 1
    root = split_url(folder).root
    urls = (info.key if is_url(info.key) else f"{root}/{info.key}" for info in infos)
    return {url[start:]: info for url, info in zip(urls, infos, strict=True)}


def read_journal(folder: str, options: RemoteOptions) -> ObjectJournal | None:
    """Return the journal in a folder, if there is one.

    Raises:
        InterruptedCommitError: If it cannot be understood.
    """
    url = f"{folder}/{JOURNAL_NAME}"
    try:
        info: ObjectInfo = ask_again(url, options, "head")
        data = RemoteFile(url, stamp_of_info(info), options).read(0, min(info.size, _MAX_BYTES))
    except FileNotFoundError:
        return None
    try:
        checksum, _, body = data.partition(b" ")
        fields = json.loads(body)
        if checksum != digest_text(body).encode() or fields["version"] != _VERSION:
            raise ValueError
        names = [*fields["targets"], *fields["old"]]
        if any("/" in name for name in names):
            raise ValueError
        owner = Owner(fields["machine"], int(fields["process"]))
        age = max(0.0, time.time() - info.mtime) if info.mtime else 0.0
        # This process knows what it is at: an error may have kept it from removing its journal.
        is_left = owner == this_process() and folder not in _committing
        state = "dead" if is_left else owner.state
        return ObjectJournal(owner, state, age, dict(fields["targets"]), dict(fields["old"]))
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise InterruptedCommitError(
            "the journal of a commit cannot be read; it may be of a newer release. If no process "
            "writes to the folder, delete this object and write the files again",
            path=url,
        ) from None


def refuse_interrupted(folder: str) -> InterruptedCommitError:
    """Return the error of a reader or writer that finds a journal in a folder."""
    return InterruptedCommitError(
        "a process is writing files to this folder, or was interrupted; try again later. If no "
        f"process writes there, run torchrec-io clean {folder}, and write the files again",
        path=f"{folder}/{JOURNAL_NAME}",
    )


def prepare_folder(folder: str, options: RemoteOptions) -> None:
    """Check that a folder can be written, and that no other commit to it is unfinished.

    Raises:
        InterruptedCommitError: If there is the journal of another process.
        OSError: If a request failed.
    """
    check_writable(folder)
    if read_journal(folder, options) is not None:
        raise refuse_interrupted(folder)


def settle(folder: str, journal: ObjectJournal, options: RemoteOptions) -> None:
    """Delete what there is of the objects of an interrupted commit, and its journal.

    If all old objects, or all new ones, are there, they stay.
    """
    present = list_folder(folder, options)
    kept = {name for name, identity in journal.old.items() if _is(present.get(name), identity)}
    new = {
        name: present[name].size for name in journal.targets if name in present and name not in kept
    }
    is_old = len(kept) == len(journal.old) and not new
    if not (is_old or (new == journal.targets and not kept)):
        delete_objects([f"{folder}/{name}" for name in (*kept, *new)], options)
    delete_objects([f"{folder}/{JOURNAL_NAME}"], options)


def commit_one(
    folder: str,
    outputs: Sequence[tuple[NewObject, str]],
    stale: Sequence[str],
    options: RemoteOptions,
    *,
    must_be_new: bool,
) -> None:
    """Give one output its name, and then its index.

    Args:
        folder: Public URL of the folder.
        outputs: The object and its public URL; then its index, if there is one.
        stale: URLs of indexes of an older object, which are deleted first.
        options: Options for remote objects.
        must_be_new: Whether an object of that name is an error.

    Raises:
        FileExistsError: If the object exists, and must be new.
        InterruptedCommitError: If there is the journal of another process.
        OSError: If a request failed.
    """
    prepare_folder(folder, options)
    delete_objects([url for url in stale if exists(url, options)], options)
    for number, (output, url) in enumerate(outputs):
        output.rename(url, must_be_new=must_be_new and number == 0)


def commit_several(
    folder: str,
    outputs: Sequence[tuple[NewObject, str]],
    stale: Sequence[str],
    options: RemoteOptions,
    *,
    must_be_new: bool,
) -> None:
    """Give several objects of a folder their names.

    Args:
        folder: Public URL of the folder.
        outputs: Objects and their public URLs.
        stale: URLs of other objects to delete in the same step.
        options: Options for remote objects.
        must_be_new: Whether objects of these names are an error.

    Raises:
        FileExistsError: If an object exists that must be new.
        InterruptedCommitError: If there is the journal of another process.
        OSError: If a request failed.
    """
    prepare_folder(folder, options)
    present = list_folder(folder, options)
    targets = {os.path.basename(url): output.size for output, url in outputs}
    old = [name for name in (*map(os.path.basename, stale), *targets) if name in present]
    # An index belongs to an object that must be new, so it is left over.
    new = targets.keys() - {*map(os.path.basename, stale)} if must_be_new else set()
    for name in new & present.keys():
        raise output_exists(f"{folder}/{name}")
    journal = f"{folder}/{JOURNAL_NAME}"
    content = _encode(targets, {name: _identity(present[name]) for name in old})
    try:
        stamp = put_object(journal, content, options, only_if="absent")
    except FileExistsError:
        raise refuse_interrupted(folder) from None
    _committing.add(folder)
    try:
        # To copy many large objects may take hours.
        with kept_fresh(journal, content, stamp, options):
            delete_objects([f"{folder}/{name}" for name in old], options)
            map_in_threads(
                lambda output: output[0].rename(
                    output[1], must_be_new=os.path.basename(output[1]) in new
                ),
                outputs,
                max(output.most_at_once for output, _ in outputs),
            )
        delete_objects([journal], options)
    except BaseException as error:
        _undo(folder, outputs, options, error)
        raise
    finally:
        _committing.discard(folder)


def _undo(
    folder: str,
    outputs: Sequence[tuple[NewObject, str]],
    options: RemoteOptions,
    error: BaseException,
) -> None:
    """Delete the objects that got their names before an error, and the journal."""
    try:
        done = [url for output, url in outputs if output.has_name]
        if len(done) < len(outputs):
            delete_objects(done, options)
        delete_objects([f"{folder}/{JOURNAL_NAME}"], options)
    except OSError:
        if isinstance(error, OSError) and error.strerror:
            error.strerror += (
                f"; run torchrec-io clean {folder}, and write the files again if they are not "
                "there. Until then readers refuse the folder"
            )


def _identity(info: ObjectInfo) -> str:
    return str(stamp_of_info(info).file)


def _is(info: ObjectInfo | None, identity: str) -> bool:
    return info is not None and _identity(info) == identity


def _encode(targets: dict[str, int], old: dict[str, str]) -> bytes:
    machine, process = this_process()
    fields = {
        "version": _VERSION, "machine": machine, "process": process, "targets": targets, "old": old,
    }  # fmt: skip
    body = json.dumps(fields).encode()
    return digest_text(body).encode() + b" " + body
