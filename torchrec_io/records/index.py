"""The byte-offset index: where each record of a data file starts.

One representation serves the file, the map of it and an index just built: the bytes of a ``.tfidx``
file, whose layout is in ``docs/index-format.md``. The native core reads it without copying.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import IndexFormatError, StaleIndexError, TorchRecIOError, TruncatedFileError
from ..storage.compressed import (
    CompressedFile,
    Compression,
    CompressionChoice,
    check_compression,
    open_source,
)
from ..storage.local import LocalFile, Stamp, StrPath, write_atomically
from .formats import TFRECORD, Progress, RecordFormat
from .text_index import parse_text

SUFFIX = ".tfidx"

_COMPRESSION_CODES: dict[Compression | None, _core.Compression] = {
    None: _core.Compression.none,
    "gzip": _core.Compression.gzip,
    "zlib": _core.Compression.zlib,
}
_COMPRESSIONS = {code: name for name, code in _COMPRESSION_CODES.items()}
_MAGIC = b"\x89TFIDX\r\n"
# Where times differ, as after a copy, so many records are looked up in the data file.
_SAMPLED_RECORDS = 64
_HEADER_BYTES = 80
# Smaller index files are read: a map takes a page, and a process can have some 65,000 maps.
_SMALLEST_MAPPED = 1 << 14


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
        data_stamp: Of the data file that this index was found to fit, if that was checked.
    """

    def __init__(
        self,
        data_path: StrPath,
        file: bytes | npt.NDArray[np.uint8],
        index_path: StrPath | None = None,
        record_format: RecordFormat = TFRECORD,
    ) -> None:
        self.data_path = os.fspath(data_path)
        self.index_path = None if index_path is None else os.fspath(index_path)
        self._bytes = np.frombuffer(file, np.uint8) if isinstance(file, bytes) else file
        self.data_stamp: Stamp | None = None
        self._index_stamp: Stamp | None = None  # of the index file whose bytes these are
        try:
            self._header = _core.read_index_header(self._bytes)
        except ValueError as error:
            raise IndexFormatError(f"the index is damaged: {error}", path=self._name()) from None
        self.compression = _COMPRESSIONS[self._header.compression]
        self.format = record_format
        if self._header.format != record_format.code:
            raise IndexFormatError(
                f"the index is of another record format than {record_format.name!r}, or of one "
                "with other parameters",
                path=self._name(),
            )
        self._head = self._bytes[:_HEADER_BYTES].tobytes()

    # ---- making one ----

    @classmethod
    def build(
        cls,
        path: StrPath,
        *,
        compression: CompressionChoice = "auto",
        format: RecordFormat = TFRECORD,  # noqa: A002  # as RecordFileDataset has it
        progress: Progress | None = None,
    ) -> RecordIndex:
        """Reads a TFRecord file and finds its records; checks each length, not the data.

        Args:
            path: The data file.
            compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
            format: How the file splits into records, if it is no TFRecord file.
            progress: Called now and then with the bytes of the file and the records done so far.

        Raises:
            CorruptRecordError: a length does not match its checksum, or a compressed stream is
                damaged.
            TruncatedFileError: the file ends inside a record or a compressed stream.
            FileNotFoundError, IsADirectoryError: there is no such file.
        """
        index, error = cls.build_partial(
            path, compression=compression, format=format, progress=progress
        )
        if error is not None:
            raise error
        return index

    @classmethod
    def build_partial(
        cls,
        path: StrPath,
        *,
        compression: CompressionChoice = "auto",
        format: RecordFormat = TFRECORD,  # noqa: A002  # as RecordFileDataset has it
        progress: Progress | None = None,
    ) -> tuple[RecordIndex, TorchRecIOError | None]:
        """As :meth:`build`, but gives the records before the damage, and the damage, if any."""
        file = LocalFile(path)
        check_compression(compression)
        resolved = format.detect(file) if compression == "auto" else compression
        source = open_source(file, resolved)
        before = file.stamp
        scan = format.scan(source, progress)
        restarts = source.restarts if isinstance(source, CompressedFile) else []
        encoded = encode_index(
            file, scan.starts, scan.end, resolved, restarts, record_format=format
        )
        index = cls(path, encoded, record_format=format)
        index.data_stamp = before
        return index, scan.error

    @classmethod
    def load(
        cls,
        path: StrPath,
        data_path: StrPath | None = None,
        *,
        format: RecordFormat = TFRECORD,  # noqa: A002  # as RecordFileDataset has it
    ) -> RecordIndex:
        """Maps an index file and checks that it belongs to its data file as that is now.

        Args:
            path: An index file (``.tfidx`` or text), or a data file with its ``.tfidx`` beside it.
            data_path: The data file; by default the index file's name without its last suffix.
            format: How it splits into records, if it is no TFRecord file.

        Raises:
            IndexFormatError: the file is damaged, no index, or one of another format.
            StaleIndexError: the data file has changed, or is another one.
            FileNotFoundError: the index or the data file does not exist.
        """
        name = os.fspath(path)
        if data_path is None and not _is_index(name):
            data_path, name = name, name + SUFFIX
        file = LocalFile(name)
        magic = file.read(0, len(_MAGIC))
        if magic != _MAGIC and not name.endswith(SUFFIX):
            if format.code != TFRECORD.code:
                raise IndexFormatError("only of TFRecord files is there a text index", path=name)
            return cls.from_text(
                name, os.path.splitext(name)[0] if data_path is None else data_path
            )
        data_path = name[: -len(SUFFIX)] if data_path is None else data_path
        index = cls._opened(data_path, file, format)
        index.check_fresh()
        return index

    @classmethod
    def _opened(
        cls, data_path: StrPath, file: LocalFile, record_format: RecordFormat
    ) -> RecordIndex:
        """The index that an index file holds."""
        size = file.stamp.size
        if size == 0:
            raise IndexFormatError("the index is damaged: it is empty", path=file.path)
        # Checked as it is read: pages that a map has touched count as memory of the process, and
        # there are datasets of thousands of indexes.
        held = _core.allocate(size)
        held = held[: file.read_into(0, held.data)]
        index = cls(data_path, held, file.path, record_format)
        if size >= _SMALLEST_MAPPED:
            with contextlib.suppress(OSError):  # there are as many maps as there can be
                index._bytes = file.mapped(size)
        index._index_stamp = file.stamp
        return index

    @classmethod
    def _reopen(
        cls, data_path: str, index_path: str, head: bytes, record_format: RecordFormat
    ) -> RecordIndex:
        """Opens the file of a pickled index again, in another process."""
        file = LocalFile(index_path)
        if file.read(0, len(head)) != head:
            raise _replaced(index_path)
        return cls._opened(data_path, file, record_format)

    @classmethod
    def from_text(cls, path: StrPath, data_path: StrPath) -> RecordIndex:
        """Imports a text index, as DALI's and ``tfrecord``'s ``tfrecord2idx`` write it.

        Each line holds ``offset size``: where the record's length header starts, and the size of
        the whole frame, both in bytes.

        Raises:
            IndexFormatError: a line is no such pair, or the frames do not follow each other.
            StaleIndexError: it describes another file.
        """
        frames = parse_text(path)
        data = LocalFile(data_path)
        size = data.stamp.size
        end = int(frames[-1].sum()) if len(frames) else 0
        if end != size:
            raise StaleIndexError(
                f"the index ends at byte {end}, the data file at {size}: it is of another file",
                path=os.fspath(path),
            )
        encoded = encode_index(data, np.ascontiguousarray(frames[:, 0]), end)
        index = cls(data_path, encoded)
        index._check_sampled_records(data, os.fspath(path))
        index.data_stamp = data.stamp
        return index

    # ---- keeping it ----

    def save(self, path: StrPath | None = None) -> Path:
        """Writes the index, whole or not at all; by default beside the data file as ``NAME.tfidx``.

        Returns:
            The path written.
        """
        target = Path(self.data_path + SUFFIX if path is None else path)
        self._write(target, durable=True)
        return target

    def save_to_cache(self, path: StrPath) -> None:
        """Writes the index, whole or not at all, to where it may get lost with the machine."""
        self._write(Path(path), durable=False)

    def _write(self, target: Path, *, durable: bool) -> None:
        write_atomically(target, self._bytes.tobytes(), durable=durable)
        self.index_path = str(target)
        self._index_stamp = Stamp.of(os.stat(target))

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
        """Bytes of each record's data, without its frame; ``[n]``.

        In other files than TFRecord's: of each frame, such as a line with its end.
        """
        starts, ends = self.locate(np.arange(len(self), dtype=np.int64))
        return ends - starts - self.format.overhead_bytes

    @property
    def is_known(self) -> bool:
        """Whether there is an index yet: one that was only promised is found on first use."""
        return True

    @property
    def identity(self) -> tuple[int, int, int]:
        """What tells the data file from others, wherever it is: records, bytes, fingerprint."""
        return len(self), self._header.data_bytes, self._header.data_fingerprint

    @property
    def was_touched(self) -> bool:
        """Whether the data file was written, if only as a copy, after it was indexed."""
        stamp = self.data_stamp
        return stamp is not None and stamp.mtime_ns != self._header.data_mtime_ns

    @property
    def restarts(self) -> list[tuple[int, int]]:
        """(Stream offset, file offset) pairs at which decompressing can start."""
        return _core.read_index_restarts(self._bytes)

    @property
    def file_bytes(self) -> npt.NDArray[np.uint8]:
        """What an index file of it holds; where it has one, this may be a map of that."""
        return self._bytes

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
        self._check_fits(LocalFile(self.data_path), self._name())

    def check_unchanged(self) -> None:
        """Checks that neither file has changed while the index was in use; two calls of the system.

        A data file that was replaced by one that the index fits is fine.

        Raises:
            StaleIndexError: the data file or the index file was replaced or changed.
            TruncatedFileError: the data file became shorter.
            FileNotFoundError: the data file is gone.
        """
        # First: an index file that was cut short must not be touched through its map.
        self._check_index_file()
        if Stamp.of(os.stat(self.data_path)) != self.data_stamp:
            self.check_opened(LocalFile(self.data_path))

    def check_opened(self, file: LocalFile) -> None:
        """As :meth:`check_unchanged`, for a data file that was just opened."""
        if file.stamp == self.data_stamp:
            return
        try:
            self._check_fits(file, self.data_path)
        except StaleIndexError as error:
            if self._was_cut(file):
                raise TruncatedFileError(
                    "the file became shorter since it was indexed",
                    path=self.data_path,
                    offset=file.stamp.size,
                ) from None
            raise StaleIndexError(
                f"the data file was replaced or changed while it was in use: {error.reason}",
                path=self.data_path,
                offset=error.offset,
            ) from None

    def _check_index_file(self) -> None:
        if self.index_path is None:
            return
        try:
            if Stamp.of(os.stat(self.index_path)) == self._index_stamp:
                return
            file = LocalFile(self.index_path)
        except FileNotFoundError:
            return  # what is held of it stays as it was
        if file.stamp.size != len(self._bytes) or file.read(0, _HEADER_BYTES) != self._head:
            raise _replaced(self.index_path)
        self._index_stamp = file.stamp

    def _check_fits(self, file: LocalFile, name: str) -> None:
        size = file.stamp.size
        if size != self._header.data_bytes:
            raise StaleIndexError(
                f"the data file has {size} bytes, the indexed one had {self._header.data_bytes}",
                path=name,
            )
        if self.format.fingerprint(file, size) != self._header.data_fingerprint:
            raise StaleIndexError("the content of the data file is not what was indexed", path=name)
        if file.stamp.mtime_ns != self._header.data_mtime_ns and self.compression is None:
            self._check_sampled_records(file, name)
        self.data_stamp = file.stamp

    def _check_sampled_records(self, file: LocalFile, name: str) -> None:
        count = len(self)
        sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLED_RECORDS)).astype(np.int64))
        wrong = self.format.first_misplaced(file, *self.locate(sample))
        if wrong is not None:
            raise StaleIndexError(self.format.misplaced, path=name, offset=wrong)

    def _was_cut(self, file: LocalFile) -> bool:
        """Whether a data file that does not fit is the one that did, cut short."""
        before, now = self.data_stamp, file.stamp
        if before is None or self.compression is not None or now.size >= before.size:
            return False
        if (now.device, now.inode) != (before.device, before.inode):
            return False
        starts, ends = self.locate(np.arange(min(len(self), _SAMPLED_RECORDS)))
        left = self.format.was_whole(starts, ends, now.size)
        return self.format.first_misplaced(file, starts[left], ends[left]) is None

    def _name(self) -> str:
        return self.index_path or self.data_path

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"data_stamp": self.data_stamp}
        if self.index_path is not None and os.path.exists(self.index_path):
            head = (self.data_path, self.index_path, self._head)
            return RecordIndex._reopen, (*head, self.format), state
        return RecordIndex, (self.data_path, self._bytes.tobytes(), None, self.format), state


def encode_index(
    file: LocalFile,
    starts: npt.NDArray[np.uint64],
    end: int,
    compression: Compression | None = None,
    restarts: Sequence[tuple[int, int]] = (),
    *,
    record_format: RecordFormat = TFRECORD,
) -> bytes:
    """The bytes of an index file.

    Args:
        file: The data file, as it was when it was opened.
        starts: Stream offset of each record's frame; uint64 ``[n]``.
        end: Stream offset behind the last of them.
        compression: How the file is compressed.
        restarts: (Stream offset, file offset) pairs at which decompressing can start.
        record_format: How the file splits into records.
    """
    header = _core.IndexHeader(
        format=record_format.code,
        compression=_COMPRESSION_CODES[compression],
        data_bytes=file.stamp.size,
        data_mtime_ns=file.stamp.mtime_ns,
        data_fingerprint=record_format.fingerprint(file, file.stamp.size),
        stream_end=end,
    )
    return _core.encode_index(header, starts, np.array(restarts, np.uint64).reshape(-1, 2))


def _is_index(name: str) -> bool:
    return name.endswith((SUFFIX, ".idx", ".index"))


def _replaced(index_path: str) -> StaleIndexError:
    return StaleIndexError("the index file was replaced while it was in use", path=index_path)
