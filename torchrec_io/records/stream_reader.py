"""Reads records of files from front to back, without an index: what pipes allow, and no more.

Who reads how much is settled without knowing how many records there are: files are dealt to
shares, or records where there are too few files. A shuffle goes as far as a buffer of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError
from ..storage.compressed import CompressionChoice, check_compression
from ..storage.local import seeks
from .formats import TFRECORD
from .reader import RecordBlock
from .sequential import FrameBlock, iter_blocks, open_stream
from .shuffle_window import ShuffleWindow

# What names a record: the number of its file, its number in that, the offset of its frame.
PLACE = np.dtype([("file", np.int32), ("record", np.int64), ("offset", np.int64)])

_OVERHEAD = TFRECORD.header_bytes + TFRECORD.footer_bytes
_NONE = np.empty(0, np.int64)
_NO_RECORDS = RecordBlock(np.empty(0, np.uint8), _NONE, _NONE, np.empty(0, PLACE))


@dataclass(slots=True)
class StreamPiece:
    """Some records of a stream, not yet verified, and the damage that ended a file behind them.

    Attributes:
        block: The records; its buffer holds their whole frames, in order and without gaps, and
            ``numbers`` is of :data:`PLACE`.
        damage: What ended a file before its end.
    """

    block: RecordBlock
    damage: list[TorchRecIOError]

    def __len__(self) -> int:
        return len(self.block)

    @property
    def numbers(self) -> npt.NDArray[np.void]:
        """What identifies each record; see :data:`PLACE`."""
        return self.block.numbers

    @property
    def buffer_bytes(self) -> int:
        """Of the records' data."""
        return int(self.block.lengths.sum())

    def plan(self, reader: StreamReader) -> StreamPiece:
        """Return the piece itself: its records are in memory."""
        return reader.plan(self)

    def continues(self, other: StreamPiece) -> bool:
        """Return True: the system reads ahead by itself."""
        del other
        return True

    def cut(self, count: int) -> tuple[StreamPiece, StreamPiece]:
        """The first ``count`` records, and the rest, with the damage."""
        count = min(count, len(self))
        first, rest = _part(self.block, 0, count), _part(self.block, count, len(self))
        return StreamPiece(first, []), StreamPiece(rest, self.damage)

    @classmethod
    def joined(cls, pieces: Sequence[StreamPiece]) -> StreamPiece:
        """The records of several pieces, in one, and all of their damage."""
        if len(pieces) == 1:
            return pieces[0]
        blocks = [_NO_RECORDS, *(piece.block for piece in pieces)]
        return cls(RecordBlock.joined(blocks), [error for p in pieces for error in p.damage])


class StreamReader:
    """Reads records of several files or pipes, each from front to back.

    Can be pickled and forked. It keeps no file open between its iterations.

    Args:
        paths: The files, or pipes.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        verify_crc: Whether each record's data is checked against its checksum. Lengths always are.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: ``compression`` is none of these.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
    ) -> None:
        check_compression(compression)
        self.paths = tuple(paths)
        self.compression = compression
        self.verify_crc = verify_crc
        self._pipes = [path for path in self.paths if not seeks(path)]
        self._begun = False

    def pieces(
        self,
        share: int,
        shares: int,
        *,
        size: int,
        window: int = 1,
        seed: int = 0,
        epoch: int = 0,
        skip: int = 0,
    ) -> Iterator[StreamPiece]:
        """The records of one share, ``size`` at a time.

        All shares together get each record exactly once: with as many files as shares or more, each
        file goes to one of them; with fewer, each record does, and every share reads all files.
        Damage that ends a file goes to one of them, too.

        Args:
            share: Which one.
            shares: How many processes read at the same time.
            size: Records of each piece but the last, which may have fewer: none, where there is
                only damage to tell of.
            window: Records in the buffer that a shuffle picks from; 1 keeps the order.
            seed: Of the shuffle, with the epoch and the share.
            epoch: See there.
            skip: How many records are passed over, with the damage that came before; the others
                are given in the same order as without.

        Raises:
            FileNotFoundError, IsADirectoryError: a file is gone.
            ValueError: an argument is out of its range, or a pipe would have to be read by several
                shares, or again.
        """
        for name, value, least in (
            ("share", share, 0),
            ("shares", shares, share + 1),
            ("size", size, 1),
            ("window", window, 1),
            ("skip", skip, 0),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self._check_pipes(shares)
        pieces = self._in_order(share, shares)
        if window > 1:
            numbers = [seed % 2**64, epoch, share]
            pieces = _shuffled(pieces, ShuffleWindow(window, numbers, PLACE))
        return _regrouped(_passing_over(pieces, skip), size)

    is_native = False

    def open_files(self, piece: StreamPiece) -> None:
        """Return None: the native core does not read streams by itself."""
        del piece

    def plan(self, piece: StreamPiece) -> StreamPiece:
        """The piece itself: its records are in memory."""
        return piece

    def will_need(self, piece: StreamPiece) -> None:
        """Nothing: the system reads ahead by itself."""

    def begin_epoch(self) -> None:
        """Nothing: files are opened anew for every iteration."""

    def fetch(self, piece: StreamPiece) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Checks the records of a piece.

        Returns:
            The sound records, an error for each damaged one, and behind those the piece's damage.
        """
        block = piece.block
        frames = block.starts - TFRECORD.header_bytes
        faults = TFRECORD.check(block.buffer, frames, block.lengths, self.verify_crc)
        errors = []
        for position, error_class, reason in faults:
            path, record, offset = self.place(block.numbers[position])
            errors.append(error_class(reason, path=path, record=record, offset=offset))
        return block.without([position for position, _, _ in faults]), [*errors, *piece.damage]

    def place(self, number: np.void) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""
        file, record, offset = number.item()
        return self.paths[file], record, offset

    def keys(self, numbers: npt.NDArray[np.void]) -> list[str]:
        """``path:offset`` of records, which names each one for good."""
        return [f"{self.paths[file]}:{offset}" for file, _, offset in numbers.tolist()]

    def check_no_pipe(self) -> None:
        """Raises ValueError if there is a pipe, which a worker process cannot be trusted with.

        It may not be what the parent has there, as with standard input, and the next epoch's worker
        would not know that it was read.
        """
        if self._pipes:
            raise ValueError(f"{self._pipes[0]!r} is a pipe: read it with num_workers=0")

    def _check_pipes(self, shares: int) -> None:
        if not self._pipes:
            return
        if shares > 1:
            raise ValueError(
                f"{self._pipes[0]!r} is a pipe: one process alone can read it, not {shares}"
            )
        if self._begun:
            raise ValueError(f"{self._pipes[0]!r} is a pipe: it can be read only once")
        self._begun = True

    def _in_order(self, share: int, shares: int) -> Iterator[StreamPiece]:
        """The records of a share, as many at a time as happen to be read at once."""
        by_file = len(self.paths) >= shares
        for file, path in enumerate(self.paths):
            if by_file and file % shares != share:
                continue
            # From each file anew: one that grows meanwhile does not move the records of others.
            count = file
            source = open_stream(path, self.compression)
            try:
                for block in iter_blocks(source, verify_crc=False):
                    rows = slice(None) if by_file else slice((share - count) % shares, None, shares)
                    yield _copied(block, file, rows)
                    count += len(block)
            except TorchRecIOError as damage:
                # Told by the share whose record would have come here.
                if by_file or count % shares == share:
                    yield StreamPiece(_NO_RECORDS, [damage])
            finally:
                source.close()


def _copied(block: FrameBlock, file: int, rows: slice) -> StreamPiece:
    """Some frames of a block, in memory of their own."""
    starts = block.starts[rows]
    lengths = block.lengths[rows]
    sizes = lengths + _OVERHEAD
    places = np.cumsum(sizes) - sizes
    buffer = _core.allocate(int(sizes.sum()))
    if len(starts) == len(block) and len(block):
        # They follow each other.
        buffer[:] = block.buffer[starts[0] : starts[0] + len(buffer)]
    else:
        _core.gather(block.buffer, np.stack((starts, sizes, places), axis=1), buffer)
    numbers = np.empty(len(starts), PLACE)
    numbers["file"] = file
    numbers["record"] = np.arange(block.first, block.first + len(block))[rows]
    numbers["offset"] = block.at + starts
    return StreamPiece(RecordBlock(buffer, places + TFRECORD.header_bytes, lengths, numbers), [])


def _part(block: RecordBlock, begin: int, end: int) -> RecordBlock:
    """Some of the records, which share the memory of the others."""
    at, stop = (
        int(block.starts[i]) - TFRECORD.header_bytes if i < len(block) else len(block.buffer)
        for i in (begin, end)
    )
    return RecordBlock(
        block.buffer[at:stop],
        block.starts[begin:end] - at,
        block.lengths[begin:end],
        block.numbers[begin:end],
    )


def _regrouped(pieces: Iterable[StreamPiece], size: int) -> Iterator[StreamPiece]:
    """The same records, ``size`` in each piece but the last."""
    held: list[StreamPiece] = []
    count = 0
    try:
        for piece in pieces:
            begin = 0
            while count + len(piece) - begin >= size:
                end = begin + size - count
                whole = StreamPiece(_part(piece.block, begin, end), [])
                yield StreamPiece.joined([*held, whole])
                held, count, begin = [], 0, end
            if begin < len(piece) or piece.damage:
                held.append(piece.cut(begin)[1])
                count += len(piece) - begin
    except Exception:
        if held:  # what came before a file that cannot be read
            yield StreamPiece.joined(held)
        raise
    if held:
        yield StreamPiece.joined(held)


def _passing_over(pieces: Iterable[StreamPiece], skip: int) -> Iterator[StreamPiece]:
    """What comes behind the first ``skip`` records."""
    for piece in pieces:
        skipped, rest = piece.cut(skip)
        skip -= len(skipped)
        if skip == 0:
            yield rest


def _shuffled(pieces: Iterable[StreamPiece], window: ShuffleWindow) -> Iterator[StreamPiece]:
    """The same records, each picked at random from those that the window holds at its time."""
    for piece in pieces:
        yield StreamPiece(window.push(piece.block), piece.damage)
    yield from (StreamPiece(block, []) for block in window.drain())
