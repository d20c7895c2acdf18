"""Finding the indexes of data files: beside them, in the cache, or by building them."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..errors import IndexFormatError, StaleIndexError, TorchRecIOError
from ..storage.compressed import CompressionChoice
from ..storage.local import StrPath
from .formats import TFRECORD, RecordFormat
from .index import SUFFIX, RecordIndex

IndexChoice: TypeAlias = "StrPath | Sequence[StrPath]"

logger = logging.getLogger("torchrec_io")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Cache:
    """Where indexes are kept of data files that have none beside them."""

    def __init__(self) -> None:
        root = os.environ.get("TORCHREC_IO_CACHE")
        if not root:
            root = os.path.join(
                os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "torchrec_io"
            )
        self.root = root
        self._folders: dict[str, str] = {}  # by name, where it really is

    def path(self, data_path: str, record_format: RecordFormat) -> str:
        folder, name = os.path.split(data_path)
        if os.path.islink(data_path):
            folder, name = os.path.split(os.path.realpath(data_path))
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        full = os.path.join(self._folders[folder], name)
        digest = hashlib.blake2b(os.fsencode(full), digest_size=10).hexdigest()
        if record_format.code != TFRECORD.code:  # one file may be read in several ways
            digest += f"-{record_format.code:08x}"
        return os.path.join(self.root, f"{name[:80]}-{digest}{SUFFIX}")


def cache_path(data_path: StrPath, record_format: RecordFormat = TFRECORD) -> Path:
    """Where the index of a data file is kept that has none beside it.

    In ``$TORCHREC_IO_CACHE``, else ``torchrec_io`` in the user's cache directory
    (``$XDG_CACHE_HOME``, else ``~/.cache``).
    """
    return Path(_Cache().path(os.fspath(data_path), record_format))


def keeps_indexes() -> bool:
    """Whether the cache can be written: what one process finds, others need not find again."""
    root = _Cache().root
    try:
        os.makedirs(root, exist_ok=True)
    except OSError:
        return False
    return os.access(root, os.W_OK | os.X_OK)


def find_or_build(
    path: StrPath, compression: CompressionChoice = "auto"
) -> tuple[RecordIndex, TorchRecIOError | None]:
    """The index of a data file: the one beside it, else the cached one, else a new one.

    A new one is put into the cache; reading never writes beside somebody's data. An index of a
    damaged file is not kept.

    Returns:
        The index, and the damage that ended building it early, if any.
    """
    return _find_or_build(os.fspath(path), compression, _Cache(), TFRECORD)


def open_indexes(
    paths: Sequence[str],
    index: IndexChoice,
    compression: CompressionChoice,
    record_format: RecordFormat = TFRECORD,
) -> tuple[list[RecordIndex], list[TorchRecIOError]]:
    """The indexes of many data files, by a few threads.

    Args:
        paths: The data files.
        index: ``"auto"``: as :func:`find_or_build` has it. A path or several: the index file of
            each data file.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        record_format: How the files split into records.

    Returns:
        An index for each file, and the damages that ended building some of them early.

    Raises:
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        ValueError: ``index`` is neither, or not one for each file.
        FileNotFoundError, IsADirectoryError: there is no such file.
    """
    if index is None:
        raise ValueError("index must be 'auto', a path or a list of paths, not None")
    if index == "auto":
        cache = _Cache()
        found = _in_threads(
            lambda path: _find_or_build(path, compression, cache, record_format), paths
        )
        return [built for built, _ in found], [error for _, error in found if error is not None]
    names = [index] if isinstance(index, (str, os.PathLike)) else list(index)
    if len(names) != len(paths):
        raise ValueError(f"{len(paths)} data files need as many index files, not {len(names)}")
    pairs = list(zip(names, paths, strict=True))
    return _in_threads(lambda pair: RecordIndex.load(*pair, format=record_format), pairs), []


def find_promised(indexes: Sequence[RecordIndex]) -> None:
    """Finds several indexes that were only promised, by a few threads; a single one can wait."""
    promised = [index for index in indexes if not index.is_known]
    if len(promised) > 1:
        logger.info("finding the indexes of %d files", len(promised))
        _in_threads(RecordIndex.check_unchanged, promised)


def _in_threads(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """What becomes of each item, in order. Threads take several at once: most take little time."""
    threads = min(8, os.cpu_count() or 1)
    size = max(1, min(64, len(items) // (4 * threads)))
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    with ThreadPoolExecutor(threads) as pool:
        done = pool.map(lambda part: [work(item) for item in part], parts)
        return [result for part in done for result in part]


def _find_or_build(
    path: str, compression: CompressionChoice, cache: _Cache, record_format: RecordFormat
) -> tuple[RecordIndex, TorchRecIOError | None]:
    if not record_format.is_kept:
        return RecordIndex.build_partial(path, compression=compression, format=record_format)
    fitting = _load_fitting(path + SUFFIX, path, compression, record_format)
    if fitting is None:
        cached = cache.path(path, record_format)
        fitting = _load_fitting(cached, path, compression, record_format)
    if fitting is not None:
        return fitting, None
    index, error = RecordIndex.build_partial(path, compression=compression, format=record_format)
    if error is None:
        _save_to_cache(index, cached)
    return index, error


def _load_fitting(
    candidate: str, path: str, compression: CompressionChoice, record_format: RecordFormat
) -> RecordIndex | None:
    try:
        index = RecordIndex.load(candidate, path, format=record_format)
    except FileNotFoundError:
        return None
    except (IndexFormatError, StaleIndexError, OSError) as error:
        # If it is the data that cannot be read, building will tell.
        logger.info("building a new index: %s", error)
        return None
    if index.was_touched and index.compression is None and not record_format.checks_frames:
        # Lines may have moved between those that were looked up, and no line would show it.
        logger.info("building a new index: %s was written after %s", path, candidate)
        return None
    return index if compression in ("auto", index.compression) else None


def _save_to_cache(index: RecordIndex, target: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        index.save_to_cache(target)
    except OSError as error:  # a read-only home: the index lives in memory then
        logger.info("the index is not kept in the cache: %s", error)
