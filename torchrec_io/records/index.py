"""The byte-offset index: where each record of a data file starts.

One representation serves the file, the map of it and an index just built: the bytes of a ``.tfidx``
file, whose layout is in ``docs/index-format.md``. The native core reads it without copying.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import IndexFormatError, StaleIndexError, TorchRecIOError
from .compressed import (
    CompressedFile,
    Compression,
    CompressionChoice,
    is_record_header,
    open_source,
    resolve_compression,
)
from .formats import TFRECORD, Progress, RecordFormat
from .storage import LocalFile, StrPath, write_atomically

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tfidx"

_COMPRESSION_CODES: dict[Compression | None, int] = {None: 0, "gzip": 1, "zlib": 2}
_COMPRESSIONS: dict[int, Compression | None] = {v: k for k, v in _COMPRESSION_CODES.items()}
_FORMATS: dict[int, RecordFormat] = {TFRECORD.code: TFRECORD}
_MAGIC = b"\x89TFIDX\r\n"
# The fingerprint covers this much at each end of the data file.
_SAMPLE_BYTES = 1 << 16
# Where times differ, as after a copy, so many records are looked up in the data file.
_SAMPLED_RECORDS = 64


class _Header(NamedTuple):
    format: int
    compression: int
    records: int
    data_bytes: int
    data_mtime_ns: int
    data_fingerprint: int
    stream_end: int


class RecordIndex:
    """Byte offsets of the records of one data file.

    Make one with :meth:`build`, :meth:`load` or :meth:`from_text`. Offsets count bytes of the
    decompressed stream where the file is compressed. A pickled index that has a file is reopened
    from it, so that worker processes share its pages.

    Attributes:
        data_path: The data file.
        index_path: The file that this index was loaded from or saved to, if any.
        compression: ``None``, ``"gzip"`` or ``"zlib"``: how the data file is compressed.
        format: How it splits into records.
    """

    def __init__(
        self, data_path: StrPath, file: bytes | mmap.mmap, index_path: StrPath | None = None
    ) -> None:
        self.data_path = os.fspath(data_path)
        self.index_path = None if index_path is None else os.fspath(index_path)
        self._bytes = np.frombuffer(file, np.uint8)
        try:
            self._header = _Header(*_core.read_index_header(self._bytes))
            self.format = _FORMATS[self._header.format]
            self.compression = _COMPRESSIONS[self._header.compression]
        except ValueError as error:
            raise IndexFormatError(f"the index is damaged: {error}", path=self._name()) from None
        except KeyError:
            raise IndexFormatError(
                "the index is of a record format or compression that this release does not know",
                path=self._name(),
            ) from None

    # ---- making one ----

    @classmethod
    def build(
        cls,
        path: StrPath,
        *,
        compression: CompressionChoice = "auto",
        progress: Progress | None = None,
    ) -> RecordIndex:
        """Reads a TFRecord file and finds its records; checks each length, not the data.

        Args:
            path: The data file.
            compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
            progress: Called now and then with the bytes of the file and the records done so far.

        Raises:
            CorruptRecordError: a length does not match its checksum, or a compressed stream is
                damaged.
            TruncatedFileError: the file ends inside a record or a compressed stream.
            FileNotFoundError, IsADirectoryError: there is no such file.
        """
        index, error = cls.build_partial(path, compression=compression, progress=progress)
        if error is not None:
            raise error
        return index

    @classmethod
    def build_partial(
        cls,
        path: StrPath,
        *,
        compression: CompressionChoice = "auto",
        progress: Progress | None = None,
    ) -> tuple[RecordIndex, TorchRecIOError | None]:
        """As :meth:`build`, but gives the records before the damage, and the damage, if any."""
        file = LocalFile(path)
        resolved = resolve_compression(file, compression)
        source = open_source(path, resolved)
        before = os.stat(path)
        scan = TFRECORD.scan(source, progress)
        restarts = source.restarts if isinstance(source, CompressedFile) else []
        encoded = _core.encode_index(
            scan.starts,
            np.array(restarts, np.uint64).reshape(-1, 2),
            format=TFRECORD.code,
            compression=_COMPRESSION_CODES[resolved],
            data_bytes=before.st_size,
            data_mtime_ns=before.st_mtime_ns,
            data_fingerprint=_fingerprint(file, before.st_size),
            stream_end=scan.end,
        )
        return cls(path, encoded), scan.error

    @classmethod
    def load(cls, path: StrPath, data_path: StrPath | None = None) -> RecordIndex:
        """Maps an index file and checks that it belongs to its data file as that is now.

        Args:
            path: An index file (``.tfidx`` or text), or a data file with its ``.tfidx`` beside it.
            data_path: The data file; by default the index file's name without its last suffix.

        Raises:
            IndexFormatError: the file is damaged or no index.
            StaleIndexError: the data file has changed, or is another one.
            FileNotFoundError: the index or the data file does not exist.
        """
        name = os.fspath(path)
        if data_path is None and not _is_index(name):
            data_path, name = name, name + SUFFIX
        with open(name, "rb") as file:
            magic = file.read(len(_MAGIC))
            if magic != _MAGIC and not name.endswith(SUFFIX):
                return cls.from_text(
                    name, os.path.splitext(name)[0] if data_path is None else data_path
                )
            if len(magic) == 0:
                raise IndexFormatError("the index is damaged: it is empty", path=name)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        index = cls(name[: -len(SUFFIX)] if data_path is None else data_path, mapped, name)
        index.check_fresh()
        return index

    @classmethod
    def from_text(cls, path: StrPath, data_path: StrPath) -> RecordIndex:
        """Imports a text index, as DALI's and ``tfrecord``'s ``tfrecord2idx`` write it.

        Each line holds ``offset size``: where the record's length header starts, and the size of
        the whole frame, both in bytes.

        Raises:
            IndexFormatError: a line is no such pair, or the frames do not follow each other.
            StaleIndexError: it describes another file.
        """
        frames = _parse_text(path)
        data = LocalFile(data_path)
        size = data.size
        end = int(frames[-1].sum()) if len(frames) else 0
        if end != size:
            raise StaleIndexError(
                f"the index ends at byte {end}, the data file at {size}: it is of another file",
                path=os.fspath(path),
            )
        encoded = _core.encode_index(
            np.ascontiguousarray(frames[:, 0]),
            np.empty((0, 2), np.uint64),
            format=TFRECORD.code,
            compression=0,
            data_bytes=size,
            data_mtime_ns=os.stat(data_path).st_mtime_ns,
            data_fingerprint=_fingerprint(data, size),
            stream_end=end,
        )
        index = cls(data_path, encoded)
        index._check_sampled_records(data, os.fspath(path))
        return index

    # ---- keeping it ----

    def save(self, path: StrPath | None = None) -> Path:
        """Writes the index, whole or not at all; by default beside the data file as ``NAME.tfidx``.

        Returns:
            The path written.
        """
        target = Path(self.data_path + SUFFIX if path is None else path)
        write_atomically(target, self._bytes.tobytes())
        self.index_path = str(target)
        return target

    def to_text(self, path: StrPath) -> Path:
        """Writes the text form that DALI and ``tfrecord`` read: a line ``offset size`` a frame.

        Raises:
            ValueError: the data file is compressed, so that no such offset exists in it.
        """
        if self.compression is not None:
            raise ValueError(f"a text index of a {self.compression} file would mean nothing")
        starts, ends = self.locate(np.arange(len(self), dtype=np.int64))
        lines = (
            f"{start} {end - start}\n"
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        )
        write_atomically(path, "".join(lines).encode("ascii"))
        return Path(path)

    # ---- using it ----

    def __len__(self) -> int:
        return self._header.records

    def __repr__(self) -> str:
        return f"RecordIndex({self.data_path!r}, {len(self):,} records)"

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Byte offset of each record's frame, that is of its length header; ``[n]``."""
        return self.locate(np.arange(len(self), dtype=np.int64))[0]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of each record's data, without its frame; ``[n]``."""
        starts, ends = self.locate(np.arange(len(self), dtype=np.int64))
        return ends - starts - self.format.header_bytes - self.format.footer_bytes

    @property
    def restarts(self) -> list[tuple[int, int]]:
        """(Stream offset, file offset) pairs at which decompressing can start."""
        return _core.read_index_restarts(self._bytes)

    @property
    def stream_end(self) -> int:
        """Stream offset behind the last record."""
        return self._header.stream_end

    def locate(
        self, records: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Stream offsets of the starts and ends of records' frames.

        Raises:
            IndexError: there is no such record.
        """
        return _core.locate_records(self._bytes, np.ascontiguousarray(records, np.int64))

    def check_fresh(self) -> None:
        """Raises :class:`StaleIndexError` unless the index fits the data file as it is now.

        The size and a fingerprint of the content (64 KiB at each end) must be those that were
        indexed. Where the time of the last change differs too, as it does after a copy, some
        records spread over the file must also be where the index says.
        """
        file = LocalFile(self.data_path)
        stat = os.stat(self.data_path)
        if stat.st_size != self._header.data_bytes:
            raise StaleIndexError(
                f"the data file has {stat.st_size} bytes, the indexed one had "
                f"{self._header.data_bytes}",
                path=self._name(),
            )
        if _fingerprint(file, stat.st_size) != self._header.data_fingerprint:
            raise StaleIndexError(
                "the content of the data file is not what was indexed", path=self._name()
            )
        if stat.st_mtime_ns != self._header.data_mtime_ns and self.compression is None:
            self._check_sampled_records(file, self._name())

    def _check_sampled_records(self, file: LocalFile, name: str) -> None:
        count = len(self)
        sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLED_RECORDS)).astype(np.int64))
        for start, end in zip(*(part.tolist() for part in self.locate(sample)), strict=True):
            head = file.read(start, TFRECORD.header_bytes)
            overhead = TFRECORD.header_bytes + TFRECORD.footer_bytes
            if not is_record_header(head) or int.from_bytes(head[:8], "little") != (
                end - start - overhead
            ):
                raise StaleIndexError(
                    "no record of that size is where the index says", path=name, offset=start
                )

    def _name(self) -> str:
        return self.index_path or self.data_path

    def __reduce__(self) -> tuple[Any, ...]:
        if self.index_path is not None and os.path.exists(self.index_path):
            return _reopen, (self.data_path, self.index_path, self._bytes[:80].tobytes())
        return RecordIndex, (self.data_path, self._bytes.tobytes(), self.index_path)


def _reopen(data_path: str, index_path: str, head: bytes) -> RecordIndex:
    """Maps the file of a pickled index again, in another process."""
    with open(index_path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if mapped[: len(head)] != head:
        raise StaleIndexError("the index file was replaced while it was in use", path=index_path)
    return RecordIndex(data_path, mapped, index_path)


def _is_index(name: str) -> bool:
    return name.endswith((SUFFIX, ".idx", ".index"))


def _fingerprint(file: LocalFile, size: int) -> int:
    """64 bits over the first and the last 64 KiB of a file."""
    digest = hashlib.blake2b(file.read(0, _SAMPLE_BYTES), digest_size=8)
    digest.update(file.read(max(0, size - _SAMPLE_BYTES), _SAMPLE_BYTES))
    return int.from_bytes(digest.digest(), "little")


def _parse_text(path: StrPath) -> npt.NDArray[np.uint64]:
    """Frames of a text index as uint64 ``[n, 2]``: offset and size."""
    name = os.fspath(path)
    smallest = TFRECORD.header_bytes + TFRECORD.footer_bytes
    frames: list[tuple[int, int]] = []
    expected = 0
    with open(name, "rb") as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            # isdigit: int() would also take signs, underscores and other scripts' digits.
            if len(fields) != 2 or not all(f.isdigit() and len(f) < 19 for f in fields):
                raise IndexFormatError(
                    f"line {number} of the index is not 'offset size': {line[:40]!r}", path=name
                )
            offset, size = int(fields[0]), int(fields[1])
            if offset != expected or size < smallest:
                raise IndexFormatError(
                    f"line {number} of the index: a record of {size} bytes at {offset} cannot "
                    f"follow one that ends at {expected}",
                    path=name,
                )
            frames.append((offset, size))
            expected += size
    return np.array(frames, np.uint64).reshape(-1, 2)


# ---- finding the index of a data file ----


def cache_path(data_path: StrPath) -> Path:
    """Where the index of a data file is kept that has none beside it.

    In ``$TORCHREC_IO_CACHE``, else ``torchrec_io`` in the user's cache directory
    (``$XDG_CACHE_HOME``, else ``~/.cache``).
    """
    root = os.environ.get("TORCHREC_IO_CACHE")
    if not root:
        root = os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "torchrec_io"
        )
    full = os.path.realpath(data_path)
    digest = hashlib.blake2b(os.fsencode(full), digest_size=10).hexdigest()
    return Path(root) / f"{os.path.basename(full)[:80]}-{digest}{SUFFIX}"


def find_or_build(
    path: StrPath, compression: CompressionChoice = "auto"
) -> tuple[RecordIndex, TorchRecIOError | None]:
    """The index of a data file: the one beside it, else the cached one, else a new one.

    A new one is put into the cache; reading never writes beside somebody's data. An index of a
    damaged file is not kept.

    Returns:
        The index, and the damage that ended building it early, if any.
    """
    for candidate in (Path(os.fspath(path) + SUFFIX), cache_path(path)):
        index = _load_fitting(candidate, path, compression)
        if index is not None:
            return index, None
    index, error = RecordIndex.build_partial(path, compression=compression)
    if error is None:
        _save_to_cache(index)
    return index, error


def _load_fitting(
    candidate: Path, path: StrPath, compression: CompressionChoice
) -> RecordIndex | None:
    try:
        index = RecordIndex.load(candidate, path)
    except FileNotFoundError:
        return None
    except (IndexFormatError, StaleIndexError) as error:
        logger.info("building a new index: %s", error)
        return None
    return index if compression in ("auto", index.compression) else None


def _save_to_cache(index: RecordIndex) -> None:
    target = cache_path(index.data_path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        index.save(target)
    except OSError as error:  # a read-only home: the index lives in memory then
        logger.info("the index is not kept in the cache: %s", error)
