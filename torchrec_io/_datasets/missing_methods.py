"""Methods that other libraries have and datasets lack: errors that name what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_INSTEAD = {
    "map": "pass transform=function",
    "filter": "use where(predicate), which datasets of indexed files have",
    "batch": "pass batch_size=n to the dataset, or to the DataLoader of a map-style dataset",
    "shuffle": "pass shuffle=True to the dataset, or to the DataLoader of a map-style dataset",
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
