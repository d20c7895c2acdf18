"""Keyword options of conversions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict

from .._storage.compression import Compression
from .._storage.remote.options import StorageOptions
from ..checks import check_choice
from ..tools.report import OnError, Watcher

Types: TypeAlias = Mapping[str, str]

_STORED_DTYPES = ("int64", "float32", "string")


class Options(TypedDict, total=False):
    """Keyword options of all conversions to TFRecord.

    Attributes:
        num_shards: Number of files ``NAME-00000-of-00008`` and so on. Record ``i`` goes to file
            ``i % num_shards``. By default there is one file, ``NAME``; ``.tfrecord`` is added if
            the name has no such suffix.
        max_bytes: Instead of ``num_shards``, the largest size of a file in bytes.
        compression: Compression of the files: None (the default), "gzip", "zlib" or "zstd".
        index: Whether each file gets an index ``.tfidx``. Default: True.
        force: Whether outputs that exist are replaced. Default: False, they are refused.
        jobs: Number of processes, or of threads for images. The output does not depend on it. A
            script that uses processes needs ``if __name__ == "__main__":``. Default: 1.
        on_error: "raise" (the default), or "skip" to skip what cannot be converted and list it in
            the result.
        watcher: Receiver of progress messages, a :class:`Watcher`.
        storage_options: Options of remote objects, of sources and outputs, as for
            :class:`TFRecordDataset`.
    """

    num_shards: int | None
    max_bytes: int | None
    compression: Compression | None
    index: bool
    force: bool
    jobs: int
    on_error: OnError
    watcher: Watcher | None
    storage_options: StorageOptions


class ExportOptions(TypedDict, total=False):
    """Keyword options of all conversions from TFRecord.

    Attributes:
        on_error: "raise" (the default), or "skip" to skip and count records that are damaged or
            cannot be converted.
        allow_missing: Whether the files that exist are read, even if their names
            ``name-00001-of-00003`` say that a directory or pattern lacks some. Default: False.
        jobs: Number of threads that read. The output does not depend on it. Default: 1.
        watcher: Receiver of progress messages, a :class:`Watcher`.
        storage_options: Options of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.
    """

    on_error: OnError
    allow_missing: bool
    jobs: int
    watcher: Watcher | None
    storage_options: StorageOptions


def check_options(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError if an option is not an item of a TypedDict."""
    unknown = set(options) - set(known.__annotations__)
    if unknown:
        allowed = ", ".join(known.__annotations__)
        raise TypeError(f"unknown option {min(unknown)!r}; the options are {allowed}")


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
