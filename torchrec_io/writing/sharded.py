"""ShardedWriter: one dataset in several files, ``name-00000-of-00008`` and so on."""

from __future__ import annotations

import errno
import hashlib
import operator
import os
import re
from collections.abc import Sequence
from typing import TypeAlias

from ..storage.compression import Compression
from ..storage.local import StrPath
from .encode import Kinds
from .frame_writer import BUFFER_BYTES, FrameWriter, check_output_compression, publish
from .record_writer import Record, Writer

Key: TypeAlias = "bytes | str | int"

_SHARD = re.compile(r"-\d{5}-of-\d{5}")
_MOST_SHARDS = 99_999  # names have five digits
# What all shards together hold back of records; but what each does makes writing worth its call.
_ALL_BUFFERS_BYTES = 1 << 25
_LEAST_BUFFER_BYTES = 1 << 14


def shard_path(name: StrPath, shard: int, num_shards: int) -> str:
    """The name of a shard, as TensorFlow's tools write it: ``name-00003-of-00008``.

    Raises:
        ValueError: there is no such shard.
    """
    if not 0 <= shard < num_shards <= _MOST_SHARDS:
        raise ValueError(f"shard must be 0 to num_shards - 1, and that below {_MOST_SHARDS:,}")
    return f"{os.fspath(name)}-{shard:05d}-of-{num_shards:05d}"


class ShardedWriter(Writer):
    """Writes records to several TFRecord files, all of them or none: a context manager.

    No file has its name before the writer is closed or the ``with`` block ends. All are then
    written out, those of the same names that are there already are removed, and the new ones
    renamed. Whatever fails before the first is removed leaves these as they were; afterwards, none
    is left.

    Args:
        name: What the names of the files start with, folder included; ``shard_path`` has the rest.
        num_shards: How many files to write, 1 to 99,999; all of them are open until the end.
            Records without a key go to one after another, in turn.
        max_bytes: Instead of that: how large a file may become, compressed if it is. A record that
            is larger gets a file of its own.
        compression: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether to write the index of each file, too.
        kinds: As in :func:`encode_example`, for records that are dicts.

    Raises:
        ValueError: not exactly one of ``num_shards`` and ``max_bytes`` is there, or an argument is
            out of its range.
        FileExistsError: there are shards of this name and another number, which readers would take
            for some of these. With ``max_bytes`` this is raised by ``close``.
        TypeError, SchemaError: ``kinds`` is not what it should be.
        OSError: as :class:`TFRecordWriter`.
    """

    def __init__(
        self,
        name: StrPath,
        num_shards: int | None = None,
        *,
        max_bytes: int | None = None,
        compression: Compression | None = None,
        index: bool = False,
        kinds: Kinds | None = None,
    ) -> None:
        super().__init__(name, kinds)
        check_output_compression(compression)
        if (num_shards is None) == (max_bytes is None):
            raise ValueError("give either num_shards or max_bytes")
        if num_shards is not None and not 1 <= num_shards <= _MOST_SHARDS:
            raise ValueError(f"num_shards must be 1 to {_MOST_SHARDS:,}, not {num_shards}")
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes must be positive, not {max_bytes}")
        self._num_shards = num_shards
        self._max_bytes = max_bytes
        self._compression = compression
        self._index = index
        self._shards: list[FrameWriter] = []
        self._next = 0  # shard of the next record without a key
        self._paths: list[str] | None = None
        self._begin()
        self._open = True

    @property
    def paths(self) -> list[str]:
        """The files, once the writer was closed.

        Raises:
            ValueError: it was not, or has nothing to show.
        """
        if self._paths is None:
            raise ValueError(f"{self!r} has no files before it is closed")
        return list(self._paths)

    def write(self, record: Record, key: Key | None = None) -> None:
        """Writes one record.

        Args:
            record: As :meth:`TFRecordWriter.write` takes it.
            key: Records of equal keys go to the same shard, in every run and release: that of
                number BLAKE2b-64 of the key, read as a little-endian number, modulo ``num_shards``.
                A str counts as its UTF-8, an integer as its decimal digits.

        Raises:
            TypeError, ValueError: as :meth:`TFRecordWriter.write`; or the key is something else, or
                there is one although ``max_bytes`` is to cut the shards.
            OSError: as :meth:`TFRecordWriter.write`; all files are removed.
            RuntimeError: this process is a fork of the one that opened the writer.
        """
        self._check_usable()
        shard = self._next if key is None else self._shard_of(key)
        data = self._to_bytes(record)
        try:
            self._put(data, shard)
        except BaseException as error:
            self._give_up(error)
            raise
        if key is None and self._num_shards is not None:
            self._next = (self._next + 1) % self._num_shards
        self._records += 1

    def _begin(self) -> None:
        """Opens all shards, or the first if nobody knows how many there will be."""
        if self._num_shards is not None:
            refuse_other_shards(self._target, _SHARD, self._shard_paths(self._num_shards))
        try:
            for shard in range(self._num_shards or 1):
                self._open_shard(shard)
        except BaseException:
            self._remove()
            raise

    def _open_shard(self, shard: int) -> None:
        if self._num_shards is None:
            # As long as the name that it will have, so that one that is too long is found out now.
            path, share = f"{self._target}-{shard:05d}-of-?????", _ALL_BUFFERS_BYTES
        else:
            path = shard_path(self._target, shard, self._num_shards)
            share = _ALL_BUFFERS_BYTES // self._num_shards
        self._shards.append(
            FrameWriter(
                path,
                self._compression,
                index=self._index,
                buffer_bytes=max(_LEAST_BUFFER_BYTES, min(BUFFER_BYTES, share)),
            )
        )

    def _shard_paths(self, count: int) -> list[str]:
        return [shard_path(self._target, shard, count) for shard in range(count)]

    def _shard_of(self, key: Key) -> int:
        if self._num_shards is None:
            raise ValueError("with max_bytes, records cannot have a key: they are cut by size")
        digest = hashlib.blake2b(_key_bytes(key), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self._num_shards

    def _put(self, data: bytes, shard: int) -> None:
        if self._max_bytes is not None and not self._shards[-1].has_room(data, self._max_bytes):
            self._shards[-1].prepare()
            if len(self._shards) == _MOST_SHARDS:
                raise ValueError(f"max_bytes is too small: this takes over {_MOST_SHARDS:,} shards")
            self._open_shard(len(self._shards))
        self._shards[-1 if self._max_bytes is not None else shard].write(data)

    def _files(self) -> list[FrameWriter]:
        return self._shards

    def _finish(self) -> None:
        count = len(self._shards)
        paths = self._shard_paths(count)
        for file in self._shards:
            file.prepare()
        refuse_other_shards(self._target, _SHARD, paths)
        publish(self._shards, paths)
        self._paths = [shard_path(self._path, shard, count) for shard in range(count)]


def _key_bytes(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    try:
        return b"%d" % operator.index(key)
    except TypeError:
        raise TypeError(f"a key is bytes, a str or an int, not a {type(key).__name__}") from None


def refuse_other_shards(name: StrPath, shard: re.Pattern[str], outputs: Sequence[str]) -> None:
    """Refuses to write shards among others of the same name, which readers would take for some.

    Args:
        name: What the names of the shards begin with, folder included.
        shard: What follows that in the name of a shard.
        outputs: The shards to be written. Those that are there already will be replaced.

    Raises:
        FileExistsError: there are others.
    """
    folder, start = os.path.split(os.path.abspath(name))
    written = {os.path.basename(path) for path in outputs}
    for other in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if other.startswith(start) and shard.fullmatch(other[len(start) :]):
            if other in written:
                continue
            raise FileExistsError(
                errno.EEXIST,
                f"readers would take it for one of the {len(outputs):,} shards to be written; "
                "remove it and its like first",
                os.path.join(folder, other),
            )
