"""Methods that other libraries have and datasets lack: errors that name what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class MissingMethods:
    """Base of datasets whose missing methods raise an AttributeError that names another way.

    ``hasattr`` stays False for them.
    """

    _instead: ClassVar[Mapping[str, str]] = {}
    """What to write in place of each missing method, by its name."""

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name in self._instead:
                raise AttributeError(
                    f"{type(self).__name__} has no {name}(): {self._instead[name]}"
                )
            # The usual error; or that of a property, which Python would hide.
            return object.__getattribute__(self, name)


_MAP = (
    "use transform=function, which is called with each Sample, or with each Batch if there is a "
    "batch_size"
)
_BATCH = "use batch_size=n"

ORDERED: Mapping[str, str] = {
    "map": _MAP,
    "filter": "use where(predicate)",
    "batch": _BATCH,
    "shuffle": "use shuffle=True, or replace(shuffle=True)",
}
"""Missing methods of datasets of indexed files."""

_OF_MIXTURE = "call it on the datasets before mix()"

MIXED: Mapping[str, str] = {
    **ORDERED,
    "filter": "call where(predicate) on the datasets before mix()",
    "shuffle": "use shuffle=True for each of the datasets before mix()",
    **dict.fromkeys(("where", "select", "take"), _OF_MIXTURE),
}
"""Missing methods of mixtures."""

_OF_STREAM = (
    "the records of a stream have no numbers. Use a TFRecordDataset, which can select records"
)

STREAMED: Mapping[str, str] = {
    "map": _MAP,
    "filter": "use an if in the loop, or a TFRecordDataset and where(predicate)",
    "batch": _BATCH,
    "shuffle": "use shuffle=n, the size of a shuffle buffer",
    **dict.fromkeys(("where", "select"), _OF_STREAM),
    "take": "use itertools.islice(stream, n), or a TFRecordDataset and take(n)",
}
"""Missing methods of streams."""

NUMBERED: Mapping[str, str] = {
    "map": _MAP,
    "filter": "use where(predicate)",
    "batch": "use DataLoader(dataset, batch_size=n)",
    "shuffle": "use DataLoader(dataset, shuffle=True)",
}
"""Missing methods of map-style datasets."""
