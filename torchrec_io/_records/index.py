"""Indexes of data files: the offset of each record."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._storage.byte_source import (
    ByteBuffer,
    ByteSource,
    Ints,
    find_size,
    read_bytes,
)
from .._storage.compression import MOST_INFLATED, Compression, CompressionChoice, check_compression
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.opening import open_decompressed
from .._storage.outputs import write_output
from .._storage.pending_file import write_atomically
from .._storage.remote.options import StorageOptions
from .._storage.stamp import Stamp
from ..checks import check_integer, counted
from ..display import html_table
from ..errors import (
    CorruptRecordError,
    IndexFormatError,
    IndexTooLargeError,
    StaleIndexError,
    TorchRecIOError,
    TruncatedFileError,
)
from .formats import TFRECORD, Progress, RecordFormat, ScanResult
from .index_file import MAGIC, SUFFIX, IndexFacts, IndexFile, encode_index
from .text_index import format_text, parse_text, records_left_out

if TYPE_CHECKING:
    from .._storage.seek_points import SeekPointRecorder, SeekPoints

# Most bytes of an index by default, and how many there may be for each byte of the data file.
_INDEX_BYTES, _INDEX_BYTES_PER_BYTE = 64 << 20, 64
_OFFSET_BYTES = 4  # of a record in an index


class RecordIndex:
    """Byte offsets of the records of one data file.

    Make one with :meth:`build`, :meth:`load` or :meth:`from_text`. If the data file is compressed,
    offsets count bytes of the decompressed stream. The offsets of a large index file are read when
    they are needed; another process reads the file again.

    Args:
        data_path: Data file.
        content: Content of the index, or a function that finds it on first use, in each process.
            Until then only the facts are known, so thousands of files open at once.
        record_format: Record format of the data file.
        facts: Facts about the index. Default: those of its content.
        stamp: Stamp of the data file, if the index is known to be of exactly this version.

    Attributes:
        location: Location of the data file.
        format: Record format of the data file.
        facts: Facts that are known before the content is loaded; they stay the same.
        data_stamp: Stamp of the data file when it was last found to match this index; None if it
            has not been compared yet.
        is_verified: False if a length in the data file does not match its checksum. Such an index
            is not kept in the cache: those who verify checksums would take its lengths for right.
    """

    is_verified = True
    _damage: TorchRecIOError | None = None

    def __init__(
        self,
        data_path: StrPath,
        content: IndexFile | Callable[[], RecordIndex],
        record_format: RecordFormat = TFRECORD,
        *,
        facts: IndexFacts | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        self.location: Location = Location.of(data_path)
        self.format = record_format
        self.data_stamp = stamp
        self._content = content
        self.facts: IndexFacts = facts or self.file.facts
        if isinstance(content, IndexFile):
            self._check_coverage(content)

    def __getstate__(self) -> dict[str, Any]:
        content = self._content
        if isinstance(content, IndexFile) and content.path is not None and content.is_large:
            # Read again on first use: an error at unpickling would end a worker before it reports.
            content = functools.partial(
                _read_again, self.location, self.format, content.path, content.head
            )
        return {**self.__dict__, "_content": content}

    # ---- creating ----

    @classmethod
    def build(
        cls,
        path: StrPath,
        *,
        compression: CompressionChoice = "auto",
        format: RecordFormat = TFRECORD,  # noqa: A002  # as RecordFileDataset has it
        progress: Progress | None = None,
        storage_options: StorageOptions = None,
        seek_point_bytes: int | None = None,
        max_index_bytes: int | None = None,
        verify_crc: bool = True,
        allow_damage: bool = False,
    ) -> RecordIndex:
        """Find the records of a data file. The lengths of TFRecords are checked, not their data.

        Args:
            path: Data file.
            compression: Compression of the file: ``"auto"`` (by content), None, ``"gzip"``,
                ``"zlib"`` or ``"zstd"``.
            format: Record format of the file.
            progress: Function that is called now and then with the number of bytes of the file and
                the number of records read so far.
            storage_options: Options of a remote object; see :class:`TFRecordDataset`.
            seek_point_bytes: Number of decompressed bytes between two seek points of a compressed
                file. Default: about 4 MiB, so that they take less than 1 % of the file.
            max_index_bytes: Most bytes that the index may have, at 4 for each record. Building it
                takes up to 6 times as many bytes of memory. Default: 64 MiB, or 64 times the size
                of the file if that is more, so that a small compressed file of tiny records cannot
                fill the memory.
            verify_crc: Whether a wrong checksum of a length is damage. Otherwise, the records of a
                TFRecord file that has some are found by their lengths alone.
            allow_damage: Whether the index of a damaged file is returned. It has the records before
                the damage; see :attr:`damage`.

        Raises:
            CorruptRecordError: If a length does not match its checksum, or a compressed stream is
                damaged.
            TruncatedFileError: If the file ends inside a record or a compressed stream.
            IndexTooLargeError: If the index would have more than ``max_index_bytes``.
            FileNotFoundError, IsADirectoryError: If there is no such file.
        """
        check_compression(compression)
        if max_index_bytes is not None:
            check_integer("max_index_bytes", max_index_bytes, 1)
        location = Location.of(path, storage_options)
        file = location.open()
        limit = max_index_bytes or max(_INDEX_BYTES, _INDEX_BYTES_PER_BYTE * file.stamp.size)
        detected = format.detect(file) if compression == "auto" else compression
        limited = _limited(progress, limit, file.path)

        searches: list[Callable[[ByteSource, Progress], ScanResult]] = [format.scan]
        if not verify_crc and format is TFRECORD:
            searches.append(functools.partial(TFRECORD.scan, verify_crc=False))
        for search in searches:
            recorder = None if detected is None else make_recorder(seek_point_bytes)
            source = open_decompressed(file, detected, recorder=recorder)
            found = search(source, limited)
            if found.error is None:
                break
        size, damage = (file.stamp.size, None) if detected is None else find_size(source)
        if damage is not None and not format.is_self_checking:
            found = found.up_to(source.valid_end, damage)
        if found.error is not None:  # the next reader loads what a cache has of it
            file.drop_kept(np.array([(0, file.stamp.size, 0)]))
            if not allow_damage:
                raise found.error
        end = found.end if len(found.starts) else min(found.end, size)
        gaps = []
        if found.error is not None:  # the rest of the stream is lost
            gaps, size = [_core.Gap(end, max(end, size), _core.GapKind.damaged)], end
        content = encode_index(
            file,
            found.starts,
            end,
            detected,
            None if recorder is None else recorder.finish(),
            record_format=format,
            footer_bytes=size - end,
            gaps=gaps,
        )
        index = cls(location, IndexFile.decode(content, file.path), format)
        index.data_stamp = file.stamp
        index.is_verified = search is searches[0]
        index._damage = found.error
        return index

    @classmethod
    def load(
        cls,
        path: StrPath,
        data_path: StrPath | None = None,
        *,
        format: RecordFormat = TFRECORD,  # noqa: A002  # as RecordFileDataset has it
        storage_options: StorageOptions = None,
    ) -> RecordIndex:
        """Load an index file, and check that it matches its data file.

        Args:
            path: Index file (``.tfidx`` or text), or a data file with its ``.tfidx`` beside it.
            data_path: Data file. Default: the name of the index file without its last suffix.
            format: Record format of the data file.
            storage_options: Options of a remote object; see :class:`TFRecordDataset`.

        Raises:
            IndexFormatError: If the file is damaged, not an index, or of another record format.
            StaleIndexError: If the data file has changed, or is another one, or if the index leaves
                out records.
            FileNotFoundError: If the index or the data file does not exist.
        """
        location = Location.of(path, storage_options)
        data = None if data_path is None else Location.of(data_path, storage_options)
        if data is None and not location.name.endswith((SUFFIX, ".idx", ".index")):
            data, location = location, location.beside(SUFFIX)
        name = location.name
        data = data or location.at(os.path.splitext(name)[0])
        file = location.open()
        if not name.endswith(SUFFIX) and read_bytes(file, 0, len(MAGIC)) != MAGIC:
            if format.code != TFRECORD.code:
                raise IndexFormatError("text indexes exist only for TFRecord files", path=name)
            return cls.from_text(location, data)
        index = cls(data, IndexFile.read(file), format)
        index.check_fresh()
        return index

    @classmethod
    def from_text(
        cls, path: StrPath, data_path: StrPath, *, storage_options: StorageOptions = None
    ) -> RecordIndex:
        """Import a text index as written by ``tfrecord2idx`` of DALI and ``tfrecord``.

        Each line has the form ``offset size``: the offset of a record's length header and the size
        of its whole frame, both in bytes.

        Args:
            path: Text index.
            data_path: Data file.
            storage_options: Options of a remote object; see :class:`TFRecordDataset`.

        Raises:
            IndexFormatError: If a line does not have this form, or the frames overlap.
            StaleIndexError: If the index does not match the data file, or leaves out records.
        """
        text, location = (Location.of(each, storage_options) for each in (path, data_path))
        name = text.name
        frames = parse_text(text.open())
        data = location.open()
        size = data.stamp.size
        end = int(frames[-1].sum()) if len(frames) else 0
        if end > size:
            raise StaleIndexError(
                f"the index ends at byte {end}, the data file at byte {size}: the index is of "
                "another file",
                path=name,
            )
        if end < size:
            raise records_left_out(end, size, name)
        content = encode_index(data, np.ascontiguousarray(frames[:, 0]), end)
        index = cls(location, IndexFile.decode(content, name))
        index.data_stamp = data.stamp
        return index

    # ---- saving ----

    def save(self, path: StrPath | None = None, *, storage_options: StorageOptions = None) -> str:
        """Write the index to a file or object, all of it or nothing.

        Args:
            path: File or URL to write. Default: ``NAME.tfidx`` beside the data file or object.
            storage_options: Options of the store; see :class:`TFRecordDataset`. Default: those of
                the data object.

        Returns:
            The path, or the URL without what is secret.

        Raises:
            OSError: If it cannot be written, as a URL of HTTP.
        """
        name = self.data_path + SUFFIX if path is None else path
        target = self.location.at(name, storage_options)
        if target.local_path is not None:
            self.file.save(target, durable=True)
        else:
            target.see(write_output(target, self.file_bytes.tobytes()))
        return target.name

    def to_text(self, path: StrPath) -> Path:
        """Write a text index for DALI and ``tfrecord``: a line ``offset size`` for each frame.

        Args:
            path: File to write.

        Returns:
            The path written.

        Raises:
            ValueError: If the data file is compressed, because its readers need file offsets.
        """
        if self.compression is not None:
            raise ValueError(
                f"a text index of a {self.compression} file is not possible: its readers do not "
                "decompress; write an index .tfidx instead"
            )
        write_atomically(path, format_text(*self._locate_all()))
        return Path(path)

    # ---- reading ----

    def __len__(self) -> int:
        return self.facts.records

    def __repr__(self) -> str:
        compression = f", {self.compression}" if self.compression else ""
        return f"RecordIndex({self.data_path!r}, {counted(len(self), 'record')}{compression})"

    def _repr_html_(self) -> str:
        rows = [
            ("records", f"{len(self):,}"),
            ("file", self.data_path),
            ("size", counted(self.facts.data_bytes, "byte")),
            ("compression", self.compression or "none"),
        ]
        return html_table("RecordIndex", (), rows, len(rows))

    @property
    def data_path(self) -> str:
        """Data file; the URL of a remote object is without secrets."""
        return self.location.name

    @property
    def index_path(self) -> str | None:
        """File that the index was loaded from or saved to, if any."""
        return self.file.path

    @property
    def compression(self) -> Compression | None:
        """Compression of the data file: None, ``"gzip"``, ``"zlib"`` or ``"zstd"``."""
        return self.facts.compression

    @property
    def offsets(self) -> Ints:
        """Byte offset of each record's frame, where its length header starts; int64 ``[n]``."""
        return self._locate_all()[0]

    @property
    def lengths(self) -> Ints:
        """Size of each record's data in bytes, without its frame; int64 ``[n]``.

        For other formats than TFRecord: size of each frame, such as a line with its end.
        """
        starts, ends = self._locate_all()
        return ends - starts - self.format.overhead_bytes

    @property
    def is_loaded(self) -> bool:
        """True if the content of the index is known, which may be loaded on first use."""
        return isinstance(self._content, IndexFile)

    @property
    def identity(self) -> tuple[int, int, int]:
        """Identity of the data file, wherever it is: records, bytes, fingerprint."""
        return self.facts[:3]

    @property
    def seek_points(self) -> SeekPoints:
        """Places in a compressed data file where decompression can start."""
        return self.file.seek_points

    @property
    def gaps(self) -> list[_core.Gap]:
        """Parts of the stream without records, because of damage."""
        return self.file.core.gaps

    @property
    def damage(self) -> TorchRecIOError | None:
        """Damage that ended indexing the file early, if there was any."""
        if self._damage is None and self.is_loaded:
            for gap in self.gaps:
                return CorruptRecordError(
                    "the rest of the file was lost to damage when it was indexed",
                    path=self.data_path,
                    record=len(self),
                    offset=gap.begin,
                )
        return self._damage

    @property
    def file(self) -> IndexFile:
        """Content of the index, in memory or in a file."""
        if not isinstance(self._content, IndexFile):
            self._content = self._content().file
        return self._content

    @property
    def file_bytes(self) -> ByteBuffer:
        """Content of the index's file, which is read if it is large; uint8."""
        return self.file.read_all()

    @property
    def stream_bytes(self) -> int:
        """Size of the decompressed stream of the data file."""
        return self.file.core.stream_bytes

    @property
    def stream_end(self) -> int:
        """Stream offset of the end of the last record."""
        return self.file.header.stream_end

    def locate(self, records: Ints) -> tuple[Ints, Ints]:
        """Return the stream offsets where records' frames start and end.

        Args:
            records: Record numbers; int64 ``[n]``.

        Raises:
            IndexError: If a record number is out of range.
        """
        return self.file.locate(records)

    def _locate_all(self) -> tuple[Ints, Ints]:
        return self.locate(np.arange(len(self), dtype=np.int64))

    # ---- comparing with the data file ----

    def check_unchanged(self) -> None:
        """Check that the data file has not changed since the last check. Takes a system call.

        A data file that was replaced by one that the index matches is accepted. The offsets of a
        large index are compared with its checksums when they are read.

        Raises:
            StaleIndexError: If the data file was replaced or changed.
            TruncatedFileError: If the data file has become shorter.
            FileNotFoundError: If the data file was removed.
        """
        if not self.is_pinned and self.location.stamp_now() != self.data_stamp:
            self.check_fresh()

    @property
    def is_pinned(self) -> bool:
        """True if reads of the data file fail once it is not the indexed one anymore.

        A remote object is read exactly as it was when it was compared with the index.
        """
        return self.location.is_versioned and self.data_stamp is not None

    def find_change_time(self) -> int | tuple[int | str, ...]:
        """Return a value that differs once the data file has changed.

        It is the time of the last change, or the ETag or version of a remote object.
        """
        if self.is_pinned and self.data_stamp is not None:
            return self.data_stamp.file
        return self.location.stamp_now().mtime_ns

    def check_fresh(self, file: ByteSource | None = None) -> None:
        """Check that the index matches the data file.

        The size and the fingerprint of the content (64 KiB at each end) must be the same. The time
        of the last change must be the same, too, if what is read of the file does not show that it
        is what was indexed: TFRecords and the seek points of compressed files do. A compressed
        local file with the size and the time of the indexed one is accepted: damage to it shows
        when it is decompressed.

        Args:
            file: The open data file. Default: it is opened.

        Raises:
            StaleIndexError: If the index does not match.
            TruncatedFileError: If the file has become shorter since it was last compared.
        """
        file = file or self.location.open()
        before, now = self.data_stamp, file.stamp
        if now == before:
            return
        mismatch = self._find_mismatch(file)
        if mismatch is None:
            self.data_stamp = now
            return
        if before is None:
            raise StaleIndexError(mismatch, path=self.file.name)
        if now.file == before.file and now.size < before.size:
            raise TruncatedFileError(
                "the file has become shorter since it was indexed",
                path=self.data_path,
                offset=now.size,
            )
        raise StaleIndexError(
            f"the data file was replaced or changed while it was in use: {mismatch}",
            path=self.data_path,
        )

    def _find_mismatch(self, file: ByteSource) -> str | None:
        """Return why the index is not of a file; None if it is."""
        header, stamp, format_ = self.file.header, file.stamp, self.format
        if stamp.size != header.data_bytes:
            return (
                f"the data file has {counted(stamp.size, 'byte')}, the indexed file had "
                f"{counted(header.data_bytes, 'byte')}"
            )
        is_touched = stamp.mtime_ns != header.data_mtime_ns
        is_compressed = self.compression is not None
        if format_.fingerprint(file, stamp.size) != header.data_fingerprint:
            # All that is decompressed is compared with checksums in the index.
            is_unwritten_file = self.location.local_path is not None and not is_touched
            if not (is_compressed and is_unwritten_file):
                return "the content of the data file differs from the indexed content"
        # A TFRecord that is not where the index has it is noticed when it is read.
        if is_touched and not (is_compressed or format_.is_self_checking):
            return "the data file was changed since it was indexed"
        return None

    def _check_coverage(self, file: IndexFile) -> None:
        """Check that an index accounts for all bytes of the data file that it describes."""
        header, size = file.header, file.core.stream_bytes
        compression = file.facts.compression
        path = file.path or self.data_path
        if header.format != self.format.code:
            raise IndexFormatError(
                f"the index is of another record format than {self.format.name!r}, or of the same "
                "format with other parameters",
                path=path,
            )
        most = header.data_bytes * MOST_INFLATED[compression]
        is_size = size == most if compression is None else size <= most
        if not (is_size and self.format.covers(header.header_bytes, header.footer_bytes)):
            end = size - header.footer_bytes
            total = size if is_size else header.data_bytes
            raise IndexFormatError(
                f"the index covers bytes {header.header_bytes:,} to {end:,} of a data file of "
                f"{counted(total, 'byte')}",
                path=path,
            )
        if compression is not None:
            file.seek_points  # noqa: B018  # raises an error if they are invalid


def _read_again(data: Location, record_format: RecordFormat, path: str, head: bytes) -> RecordIndex:
    """Return the index in a file that another process has read."""
    return RecordIndex(data, IndexFile.read_again(path, head), record_format)


def _limited(progress: Progress | None, limit: int, path: str) -> Progress:
    """Return a progress function that ends the search for records if their index is too large."""

    def check(file_bytes: int, records: int) -> None:
        if _OFFSET_BYTES * records > limit:
            raise IndexTooLargeError(
                f"the index of {records:,} records or more has over {limit:,} bytes: pass a larger "
                "max_index_bytes (torchrec-io index --max-index-size) if the file is meant to have "
                "so many",
                path=path,
            )
        if progress is not None:
            progress(file_bytes, records)

    return check


def make_recorder(distance: int | None) -> SeekPointRecorder:
    """Return a recorder of the seek points of a compressed file.

    Args:
        distance: Number of bytes of the stream between two points; None: about 4 MiB.

    Raises:
        ValueError: If the number is less than 1.
    """
    from .._storage.seek_points import SeekPointRecorder  # noqa: PLC0415  # loads a decompressor

    if distance is not None:
        check_integer("seek_point_bytes", distance, 1)
    return SeekPointRecorder(distance)
