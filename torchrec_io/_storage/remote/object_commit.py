"""Names of new objects in a folder of a store.

Stores have no renaming and no locks. So the objects that are replaced are deleted first, and then
the new ones appear one by one: a reader finds old ones, new ones, or too few, which names with the
number of shards tell.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TypeAlias

from ..folders import stamps_in
from ..location import Location
from ..pending_file import output_exists
from ..stamp import Stamp
from ..thread_pool import map_in_threads
from .adopted_object import AdoptedObject
from .listing import read_remote_stamp
from .pending_object import PendingObject
from .upload import check_writable, delete_objects, exists

NewObject: TypeAlias = PendingObject | AdoptedObject

# Objects that get their names at the same time: the rest of each is in memory meanwhile.
_MOST_AT_ONCE = 8


def commit(
    folder: Location,
    outputs: Sequence[tuple[NewObject, str]],
    stale: Sequence[str],
    *,
    must_be_new: bool,
    is_single: bool,
) -> None:
    """Give objects of a folder their names.

    Args:
        folder: The folder.
        outputs: Objects and their public URLs.
        stale: URLs of other objects, which are deleted first.
        must_be_new: Whether objects of these names are an error.
        is_single: Whether there is one object, and its index if there are two. It replaces an old
            one in one step.

    Raises:
        FileExistsError: If an object exists that must be new, or another process wrote objects of
            the same names meanwhile.
        OSError: If a request failed.
    """
    options = folder.options
    assert options is not None
    check_writable(folder.name)
    if is_single:
        delete_objects([url for url in stale if exists(url, options)], options)
        for number, (output, url) in enumerate(outputs):
            output.rename(url, must_be_new=must_be_new and number == 0)
        return
    present = stamps_in(folder)
    names = {os.path.basename(url): output for output, url in outputs}
    others = {*map(os.path.basename, stale)}
    # An index belongs to an object that must be new, so it is left over.
    new = names.keys() - others if must_be_new else set()
    for name in sorted(new & present.keys()):
        raise output_exists(f"{folder}/{name}")
    old = (names.keys() | others) & present.keys()
    delete_objects([f"{folder}/{name}" for name in sorted(old)], options)

    named: list[str] = []

    def name_one(item: tuple[str, NewObject]) -> Stamp:
        name, output = item
        url = f"{folder}/{name}"
        stamp = output.rename(url, must_be_new=name in new)
        named.append(url)
        return stamp or read_remote_stamp(url, options)

    try:
        stamps = map_in_threads(name_one, list(names.items()), _MOST_AT_ONCE)
        present = stamps_in(folder)
        for name, stamp in zip(names, stamps, strict=True):
            there = present.get(name)
            if there is None or (folder.is_versioned and there.file != stamp.file):
                raise FileExistsError(
                    errno.EEXIST,
                    "another process wrote objects of the same names at the same time, so those of "
                    "this one were deleted; write them again",
                    f"{folder}/{name}",
                )
    except BaseException as error:
        try:
            delete_objects(named, options)
        except OSError as failure:
            if isinstance(error, OSError) and error.strerror:
                error.strerror += (
                    f"; new objects may be left, which could not be deleted: {failure}"
                )
        raise
