"""Methods that other libraries have and datasets lack: errors that name what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_INSTEAD = {
    "map": "pass transform=function",
    "filter": "use where(predicate), which datasets of indexed files have",
    "batch": "pass batch_size=n to the dataset, or to the DataLoader of a map-style dataset",
    "shuffle": "pass shuffle=True to the dataset, or to the DataLoader of a map-style dataset",
    "repeat": "pass epochs=n to the dataset, or epochs=None for an endless one; each loop over a "
    "loader is another epoch",
    "skip": "use select(numbers) to leave records out, and resume() or load_state_dict() to go on "
    "where a run stopped",
    "shard": "each rank and each DataLoader worker gets its own share; pass rank=i and "
    "world_size=n to choose it",
    "concatenate": "pass the files of both as one list of paths, or mix them with tio.mix()",
    "prefetch": "batches are loaded ahead by num_threads=n threads, or by the workers of a loader",
    "cache": "pass cache=tio.BlockCache(directory, max_bytes=n) to keep remote or compressed "
    "files on the local disk; local files need no cache",
}


class MissingMethods:
    """Base of datasets whose missing methods raise an AttributeError that names another way.

    ``hasattr`` stays False for them.
    """

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name in _INSTEAD:
                raise AttributeError(f"{type(self).__name__} has no {name}(): {_INSTEAD[name]}")
            # The usual error; or that of a property, which Python would hide.
            return object.__getattribute__(self, name)
