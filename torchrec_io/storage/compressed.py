"""Compressed files as byte sources, and telling whether a file is one."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from isal import igzip_lib, isal_zlib

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .local import LocalFile, OpenFile, PipeFile, Stamp, StrPath

Compression: TypeAlias = Literal["gzip", "zlib"]
CompressionChoice: TypeAlias = Literal["auto", "gzip", "zlib"] | None

COMPRESSION_CHOICES: tuple[CompressionChoice, ...] = ("auto", None, "gzip", "zlib")

# What deflate wrappers zlib calls window bits.
WINDOW_BITS: dict[Compression, int] = {"gzip": 31, "zlib": 15}
# The isal package's stubs call its error class an instance.
_INFLATE_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
_GZIP_MAGIC = b"\x1f\x8b"


class Inflater:
    """Decompresses a file from front to back: every gzip member or zlib stream, one after another.

    All bytes that can be decoded are given before an error is raised, whatever the damage; but of a
    pipe, those are lost that come out together with the damage.

    Attributes:
        restarts: ``(stream offset, file offset)`` of each member or stream begun so far.
    """

    _CHUNK_BYTES = 1 << 16

    def __init__(
        self,
        file: LocalFile | PipeFile,
        compression: Compression,
        stream_offset: int = 0,
        file_offset: int = 0,
    ) -> None:
        self.restarts: list[tuple[int, int]] = []
        self._file = file
        self._compression = compression
        self._read_at = file_offset  # where the next compressed bytes are read
        self._given = stream_offset
        self._pending = b""  # compressed bytes read, not yet decoded
        self._decoder: Any = None
        self._error: TorchRecIOError | None = None

    @property
    def consumed(self) -> int:
        """File offset up to which compressed bytes were read."""
        return self._read_at

    def read(self, size: int) -> bytes:
        """Between 1 and ``size`` decoded bytes; ``b""`` at the end of the file.

        Raises:
            TruncatedFileError: the file ends inside a compressed stream.
            CorruptRecordError: the stream is damaged, or something else follows it.
        """
        while self._error is None:
            if self._decoder is None and not self._begin_member():
                return b""
            data = self._decode(size)
            if data:
                self._given += len(data)
                return data
            # Only now that the decoder gives no more of what it holds back does it get more.
            if self._error is None and self._decoder is not None and not self._fill():
                self._error = self._truncated()
        raise self._error

    def _fill(self) -> bool:
        """Reads more of the file; False at its end."""
        data = self._file.read(self._read_at, self._CHUNK_BYTES)
        self._read_at += len(data)
        self._pending += data
        return len(data) > 0

    def _begin_member(self) -> bool:
        """Starts on the next member; False at the end of the file."""
        # Zeros behind a member are padding, as gzip(1) has it.
        padding = b"\0" if self.restarts else b""
        self._pending = self._pending.lstrip(padding)
        while len(self._pending) < 4 and self._fill():
            self._pending = self._pending.lstrip(padding)
        if not self._pending:
            return False
        wrong = self._what_is_wrong_with_header()
        if wrong:
            self._error = CorruptRecordError(wrong, path=self._file.path, offset=self._given)
            raise self._error
        self.restarts.append((self._given, self._read_at - len(self._pending)))
        self._decoder = isal_zlib.decompressobj(WINDOW_BITS[self._compression])
        return True

    def _what_is_wrong_with_header(self) -> str | None:
        """What the decoder would overlook, or not say well."""
        if self.restarts and not self._looks_like_member():
            return f"stray bytes follow the last {self._compression} stream"
        # RFC 1952, section 2.3.1.2: who meets a reserved flag must not go on.
        if self._compression == "gzip" and len(self._pending) > 3 and self._pending[3] & 0xE0:
            return "the gzip header has a reserved flag set"
        return None

    def _looks_like_member(self) -> bool:
        if self._compression == "gzip":
            return self._pending.startswith(_GZIP_MAGIC[: len(self._pending)])
        return _is_zlib_header(self._pending) or (
            len(self._pending) == 1 and _is_deflate(self._pending[0])
        )

    def _decode(self, size: int) -> bytes:
        chunk, self._pending = self._pending, b""
        try:
            data: bytes = self._decoder.decompress(chunk, size)
        except _INFLATE_ERRORS as error:
            self._error = CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}", path=self._file.path
            )
            data = self._salvage()
            self._error.offset = self._given + len(data)
            return data
        if self._decoder.eof:
            self._pending = self._decoder.unused_data
            self._decoder = None
        else:
            self._pending = self._decoder.unconsumed_tail
        return data

    def _salvage(self) -> bytes:
        """What the member decodes to before its damage, less what was given of it.

        The fast decoder drops the output of a failing call, so another decodes the member again,
        byte by byte where it fails.
        """
        if isinstance(self._file, PipeFile):
            return b""  # what was read of it is gone
        stream_at, file_at = self.restarts[-1]
        skip = self._given - stream_at
        decoder = zlib.decompressobj(WINDOW_BITS[self._compression])
        saved = bytearray()
        while chunk := self._file.read(file_at, self._CHUNK_BYTES):
            file_at += len(chunk)
            before = decoder.copy()
            try:
                data = decoder.decompress(chunk)
            except zlib.error:
                data = _decode_bytewise(before, chunk)
                chunk = b""
            saved += data[skip:]
            skip -= min(skip, len(data))
            if not chunk:
                break
        return bytes(saved)

    def _truncated(self) -> TorchRecIOError:
        return TruncatedFileError(
            f"the file ends inside a {self._compression} stream",
            path=self._file.path,
            offset=self._given,
        )


class CompressedFile:
    """The decompressed stream of a gzip or zlib file, readable at any offset.

    Reading forwards decompresses as it goes. Going far back, as a shuffled order does, decompresses
    the whole file once into an unnamed temporary file and reads there from then on. A pipe can only
    be read forwards.
    """

    _CHUNK_BYTES = 1 << 18
    _RECENT_CHUNKS = 16
    # Restarting at a member and decoding up to this much again is cheaper than a temporary file.
    _WORTH_REPEATING_BYTES = 1 << 20

    def __init__(
        self,
        file: StrPath | LocalFile | PipeFile,
        compression: Compression,
        restarts: Iterable[tuple[int, int]] = ((0, 0),),
    ) -> None:
        self._file = file if isinstance(file, OpenFile) else LocalFile(file)
        self.path = self._file.path
        self._compression = compression
        self._restarts = sorted(restarts)
        self._lock = threading.Lock()
        self._spilled: LocalFile | None = None
        self._damage: TorchRecIOError | None = None  # what ended spilling early
        self._start(0, 0)

    @property
    def stamp(self) -> Stamp:
        """What the compressed file was when it was opened."""
        return self._file.stamp

    @property
    def decoded(self) -> int:
        """Stream offset up to which bytes have come out; all of them, once reading gave none."""
        return self._at

    @property
    def restarts(self) -> list[tuple[int, int]]:
        """``(stream offset, file offset)`` of each member or stream read so far."""
        return self._inflater.restarts

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if self._spilled is None and not self._reach(offset):
                self._spill()
            if self._spilled is not None:
                got = self._spilled.read_into(offset, out)
                if got < len(out) and self._damage is not None:
                    raise self._damage
                return got
            return self._read_forwards(offset, out)

    @property
    def consumed(self) -> int:
        """Bytes of the compressed file read so far, for showing progress."""
        return self._inflater.consumed

    def read_ranges(self, ranges: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> int | None:
        for number, (offset, size, place) in enumerate(ranges.tolist()):
            if self.read_into(offset, out.data[place : place + size]) != size:
                return number
        return None

    def will_need(self, ranges: npt.NDArray[np.int64]) -> None:
        """Compressed bytes cannot be foreseen by their decompressed offset."""

    def _start(self, stream_offset: int, file_offset: int) -> None:
        self._inflater = Inflater(self._file, self._compression, stream_offset, file_offset)
        self._at = stream_offset
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=self._RECENT_CHUNKS)

    def _reach(self, offset: int) -> bool:
        """Makes sure that ``offset`` is not behind; False if only a temporary file can help."""
        restart = max((r for r in self._restarts if r[0] <= offset), default=(0, 0))
        held_from = self._recent[0][0] if self._recent else self._at
        if held_from <= offset and restart[0] <= self._at:
            return True
        if offset - restart[0] > self._WORTH_REPEATING_BYTES and offset < held_from:
            return False
        self._start(*restart)
        return True

    def _read_forwards(self, offset: int, out: memoryview) -> int:
        done = 0
        for at, chunk in self._recent:
            if at <= offset + done < at + len(chunk) and done < len(out):
                done += _copy(chunk[offset + done - at :], out[done:])
        while done < len(out):
            if done and isinstance(self._file, PipeFile):
                break  # what somebody sends now and then does not wait for more
            chunk = self._inflater.read(self._CHUNK_BYTES)
            if not chunk:
                break
            self._recent.append((self._at, chunk))
            self._at += len(chunk)
            if self._at > offset + done:
                done += _copy(chunk[offset + done - self._at + len(chunk) :], out[done:])
        return done

    def close(self) -> None:
        """Closes the file early. Nobody may be reading."""
        self._file.close()

    def _spill(self) -> None:
        inflater = Inflater(self._file, self._compression)
        with tempfile.NamedTemporaryFile(prefix="torchrec_io-") as file:
            try:
                while chunk := inflater.read(self._CHUNK_BYTES):
                    file.write(chunk)
            except TorchRecIOError as damage:
                self._damage = damage
            file.flush()
            self._spilled = LocalFile(file.name)
        self._recent.clear()


# What is read from front to back.
Stream: TypeAlias = LocalFile | PipeFile | CompressedFile


def _decode_bytewise(decoder: Any, data: bytes) -> bytes:
    """All that comes out of a zlib decoder before it fails."""
    out = bytearray()
    with contextlib.suppress(zlib.error):
        for byte in data:
            out += decoder.decompress(bytes([byte]))
    return bytes(out)


def _copy(data: bytes, out: memoryview) -> int:
    size = min(len(data), len(out))
    out[:size] = data[:size]
    return size


def _is_zlib_header(head: bytes) -> bool:
    """RFC 1950, section 2.2: deflate, a window of 32 KiB at most, and a check value."""
    return len(head) >= 2 and _is_deflate(head[0]) and int.from_bytes(head[:2], "big") % 31 == 0


def _is_deflate(method: int) -> bool:
    return method & 0x0F == 8 and method >> 4 <= 7


def detect_compression(file: LocalFile | PipeFile) -> Compression | None:
    """How a file is compressed, by its content; names do not tell.

    A sound TFRecord header comes first: a record's length can look like the start of a gzip file.
    """
    head = file.head()
    if is_record_header(head):
        return None
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if _is_zlib_header(head):
        with contextlib.suppress(zlib.error):
            zlib.decompressobj(WINDOW_BITS["zlib"]).decompress(head)
            return "zlib"
    return None


def detect_gzip(file: LocalFile) -> Compression | None:
    """``"gzip"`` if a file starts as such files do, else None.

    For files that may start with anything. There is no telling a zlib stream from those: "80" is
    how one may begin.
    """
    # RFC 1952, section 2.3: deflate is the only method, and three flags must be zero.
    head = file.head()
    is_gzip = head.startswith(_GZIP_MAGIC + b"\x08") and len(head) > 3 and head[3] & 0xE0 == 0
    return "gzip" if is_gzip else None


def is_record_header(head: bytes) -> bool:
    """Whether bytes start with a TFRecord header: a length and its checksum."""
    if len(head) < 12:
        return False
    return _core.mask_crc(crc32c(head[:8])) == int.from_bytes(head[8:12], "little")


def crc32c(data: bytes) -> int:
    """CRC-32C of bytes."""
    return _core.crc32c(np.frombuffer(data, np.uint8))


def check_compression(choice: CompressionChoice) -> None:
    """Raises ValueError unless the argument ``compression`` is one of its values."""
    if choice not in COMPRESSION_CHOICES:
        raise ValueError(f"compression must be one of {COMPRESSION_CHOICES}, not {choice!r}")


def resolve_compression(
    file: LocalFile | PipeFile, choice: CompressionChoice
) -> Compression | None:
    """Checks the argument ``compression`` and settles ``"auto"``."""
    check_compression(choice)
    return detect_compression(file) if choice == "auto" else choice


def open_source(
    file: StrPath | LocalFile,
    compression: Compression | None,
    restarts: Iterable[tuple[int, int]] = ((0, 0),),
) -> LocalFile | CompressedFile:
    """Opens a file, if it is not yet, for reading at any offset of its decompressed stream."""
    if compression is None:
        return file if isinstance(file, LocalFile) else LocalFile(file)
    return CompressedFile(file, compression, restarts)


def read_up_to_damage(
    source: Stream, offset: int, out: memoryview
) -> tuple[int, TorchRecIOError | None]:
    """As ``source.read_into``, but gives what a damaged stream still held, and the damage.

    Only for reading forwards: ``offset`` may not lie behind what was read before.
    """
    try:
        return source.read_into(offset, out), None
    except TorchRecIOError as damage:
        # Bytes are put into ``out`` as they are decoded, so those before the damage are there.
        held = source.decoded - offset if isinstance(source, CompressedFile) else 0
        return min(max(held, 0), len(out)), damage
