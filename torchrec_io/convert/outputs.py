"""Where record files are written to: never over what is read, and all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from ..errors import TorchRecIOError
from ..records.record_block import RecordBlock
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..writing.frame_writer import FrameWriter, check_output_compression, publish
from .jobs import Tally

_SHARD = re.compile(r"-\d{5,}-of-\d{5,}")


class Written(NamedTuple):
    """What was written.

    Attributes:
        paths: The files, in order.
        counts: Records of each file; empty where they are dealt to shards.
        records: Records in all of them.
        skipped: How much was left out, because of ``on_error="skip"``.
        errors: Why, of the first 1,000.
        file_bytes: Size of all files.
        seconds: How long it took.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]
    records: int
    skipped: int
    errors: tuple[TorchRecIOError, ...]
    file_bytes: int
    seconds: float

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        tally: Tally,
        counts: Sequence[int] = (),
        file_bytes: int | None = None,
    ) -> Written:
        """As a tally has it; the size is that of the files, if it is not given."""
        return cls(
            tuple(paths),
            tuple(counts),
            tally.records,
            tally.skipped,
            tuple(tally.errors),
            sum(map(os.path.getsize, paths)) if file_bytes is None else file_bytes,
            tally.seconds,
        )


def refuse_inputs(inputs: Sequence[str], outputs: Iterable[StrPath]) -> None:
    """Refuses to write over what is read, under whatever name.

    Raises:
        ValueError: an output is an input.
    """
    read = {os.path.realpath(path): path for path in inputs}
    for output in outputs:
        if (path := read.get(os.path.realpath(output))) is not None:
            raise ValueError(f"{os.fspath(output)!r} would be written over the input {path!r}")


def refuse_shards_of(inputs: Sequence[str], name: StrPath) -> None:
    """Refuses shards of a name, however many there will be, if an input is called like one.

    Raises:
        ValueError: an input is.
    """
    whole = os.path.realpath(name)
    for path in inputs:
        real = os.path.realpath(path)
        if real.startswith(whole) and _SHARD.fullmatch(real[len(whole) :]):
            raise ValueError(
                f"shards of {os.fspath(name)!r} could be written over the input {path!r}: "
                "choose another name or folder"
            )


def check_shards_name(name: StrPath) -> None:
    """Refuses a name that nothing would stand before the number in: a folder.

    Raises:
        ValueError: it is one.
    """
    if os.path.basename(name) in ("", os.curdir, os.pardir):
        raise ValueError(
            f"{os.fspath(name)!r} is a folder: say how the files in it begin, as in "
            f"{os.path.join(name, 'train')!r}"
        )


def make_folder_of(path: StrPath) -> None:
    """Makes the folder that a file is to be in."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)


class RecordOutputs:
    """TFRecord files that all get their names at the end of a ``with`` block, or none of them.

    Args:
        compression: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each file gets its ``.tfidx``.

    Raises:
        ValueError: there is no such compression.
    """

    def __init__(self, compression: Compression | None, index: bool) -> None:
        check_output_compression(compression)
        self._compression = compression
        self._index = index
        self._files: list[FrameWriter] = []

    def open(self, path: str) -> FrameWriter:
        """Begins a file, in a folder that is made if there is none. Several threads may do so."""
        make_folder_of(path)
        file = FrameWriter(path, self._compression, index=self._index)
        self._files.append(file)
        return file

    def __enter__(self) -> RecordOutputs:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                publish(self._files, [file.path for file in self._files])
        finally:
            for file in self._files:
                file.discard()  # of one that has its name this does nothing


def copy_records(blocks: Generator[RecordBlock], write: Callable[[bytes], None]) -> int:
    """Writes all records of blocks, as they are; gives their number."""
    count = 0
    with closing(blocks):  # whatever happens, nobody reads on
        for block in blocks:
            for position in range(len(block)):
                write(block[position])
            count += len(block)
    return count
