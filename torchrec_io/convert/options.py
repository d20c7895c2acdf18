"""Keyword options of conversions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..checks import check_choice
from ..tools.options import CopyOptions

Types: TypeAlias = Mapping[str, str]

_STORED_DTYPES = ("int64", "float32", "string")


class Options(CopyOptions, total=False):
    """Keyword options of all conversions to TFRecord.

    They are those of :class:`torchrec_io.tools.CopyOptions` and two more. ``on_error="skip"`` also
    skips and counts lines, rows or images that cannot be converted. ``jobs`` is the number of
    processes that convert, for images of threads: a script that uses several processes needs
    ``if __name__ == "__main__":``. ``allow_missing`` has no effect on a folder of images.

    Attributes:
        num_shards: Number of files ``NAME-00000-of-00008`` and so on. Record ``i`` goes to file
            ``i % num_shards``. By default there is one file, ``NAME``; ``.tfrecord`` is added if
            the name has no such suffix.
        max_bytes: Instead of ``num_shards``, the largest size of a file in bytes.
    """

    num_shards: int | None
    max_bytes: int | None


@dataclass(frozen=True)
class ColumnOptions:
    """Options that choose the columns of a table and their stored dtypes.

    Attributes:
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes by column.

    Raises:
        TypeError: If a list of names is a string.
        ValueError: If a dtype cannot be stored.
    """

    include: Collection[str] | None = None
    exclude: Collection[str] = ()
    types: Types = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option in (self.include, self.exclude):
            if isinstance(option, str):
                raise TypeError(f"include and exclude must be lists of names, got {option!r}")
        for name, dtype in self.types.items():
            check_choice(f"the type of {name!r}", dtype, _STORED_DTYPES)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names of the columns to convert, in their order.

        Raises:
            ValueError: If an option has a name that is not a column, or no column is left.
        """
        names = list(names)
        named = {"include": self.include or (), "exclude": self.exclude, "types": self.types}
        for option, given in named.items():
            unknown = set(given) - set(names)
            if unknown:
                raise ValueError(
                    f"{option} has {min(unknown)!r}, which is not a column; the columns are "
                    + ", ".join(names)
                )
        kept = set(names if self.include is None else self.include) - set(self.exclude)
        if names and not kept:
            raise ValueError("include and exclude leave no column")
        return [name for name in names if name in kept]
