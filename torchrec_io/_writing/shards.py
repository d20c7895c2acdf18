"""Datasets in several files, ``name-00000-of-00008`` and so on: their names and their writer."""

from __future__ import annotations

import errno
import operator
import os
import re
from collections.abc import Sequence
from typing import TypeAlias

from .._storage.compression import Compression
from .._storage.digest import digest_number
from .._storage.file_limit import is_out_of_files, out_of_files
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.outputs import names_in, split_output
from .._storage.remote.options import StorageOptions
from ..checks import check_integer, counted
from .encode import Kinds
from .frame_writer import BUFFER_BYTES, FrameWriter
from .output_group import OutputGroup
from .record_writer import Record, Writer

Key: TypeAlias = "bytes | str | int"

_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}")
_MAX_SHARDS = 99_999  # names have five digits
# The buffers of all shards together have this size, but each has enough to make a write worth its
# system call.
_ALL_BUFFERS_BYTES = 1 << 25
_MIN_BUFFER_BYTES = 1 << 14
# Objects get the names of such shards by copies, for which stores have this limit.
MOST_OBJECT_BYTES = 5 << 30


def shard_path(name: StrPath, shard: int, num_shards: int) -> str:
    """Return the path of a shard as TensorFlow's tools write it: ``name-00003-of-00008``.

    Args:
        name: Common start of the paths of all shards.
        shard: Number of the shard, from 0.
        num_shards: Number of shards, at most 99,999.

    Raises:
        ValueError: If a number is out of its range.
    """
    if not 0 <= shard < num_shards <= _MAX_SHARDS:
        raise ValueError(
            f"shard must be from 0 to num_shards - 1 and num_shards at most {_MAX_SHARDS:,}, got "
            f"shard={shard}, num_shards={num_shards}"
        )
    return f"{os.fspath(name)}-{shard:05d}-of-{num_shards:05d}"


def shards_of(name: Location, num_shards: int) -> list[Location]:
    """Return the locations of all shards of a name."""
    return [name.beside(shard_path("", shard, num_shards)) for shard in range(num_shards)]


def check_max_bytes(name: Location, max_bytes: int) -> None:
    """Raise ValueError if shards of a store may be too large to get their names."""
    if max_bytes > MOST_OBJECT_BYTES and name.local_path is None:
        raise ValueError(
            f"max_bytes must be at most {MOST_OBJECT_BYTES:,} (5 GiB) for objects of a store, got "
            f"{max_bytes:,}; use num_shards"
        )


def buffer_bytes_of(num_shards: int | None) -> int:
    """Return the buffer size of each of several shards that are written at the same time.

    The bytes of a compressed shard depend on it.
    """
    most = _ALL_BUFFERS_BYTES // (num_shards or 1)
    return max(_MIN_BUFFER_BYTES, min(BUFFER_BYTES, most))


class ShardFiles:
    """The shards of one dataset, written in an output group.

    Args:
        group: Output group that the shards belong to.
        name: Common start of the paths of the shards.
        num_shards: Number of shards, 1 to 99,999. All of them are open until the end.
        max_bytes: Instead of ``num_shards``, the largest size of a shard in bytes, compressed if it
            is compressed. A larger record gets a shard of its own.
        compression: ``None``, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        index: Whether each shard gets an index.
        replaces_others: Whether shards of this name and another number are removed when the group
            is committed. Otherwise they are refused.

    Raises:
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, or an argument
            is out of its range.
        FileExistsError: If there are shards of this name and another number, or shards of this name
            that the group may not replace.
        OSError: If a file cannot be created.
    """

    def __init__(
        self,
        group: OutputGroup,
        name: Location,
        num_shards: int | None = None,
        *,
        max_bytes: int | None = None,
        compression: Compression | None = None,
        index: bool = False,
        replaces_others: bool = False,
    ) -> None:
        if (num_shards is None) == (max_bytes is None):
            raise ValueError("exactly one of num_shards and max_bytes must be given")
        if num_shards is not None:
            num_shards = check_integer("num_shards", num_shards, 1, _MAX_SHARDS)
        if max_bytes is not None:
            max_bytes = check_integer("max_bytes", max_bytes, 1)
            check_max_bytes(name, max_bytes)
        self._group = group
        self._name = name
        self._num_shards = num_shards
        self._max_bytes = max_bytes
        self._compression = compression
        self._index = index
        self._replaces_others = replaces_others
        self._files: list[FrameWriter] = []
        self._next = 0  # shard of the next record without a key
        if not group.force:
            refuse_shards(name)
        if num_shards is not None and not replaces_others:
            refuse_other_shards(name, shards_of(name, num_shards))
        for _ in range(num_shards or 1):
            self._open_next()

    @property
    def counts(self) -> list[int]:
        """Number of records in each shard. It is final once the shards are finished."""
        return [count for file in self._files for count in file.counts]

    def shard_of(self, key: Key) -> int:
        """Return the number of the shard for records with this key.

        Raises:
            TypeError: If the key is not bytes, a str or an int.
            ValueError: If the number of shards is not given.
        """
        if self._num_shards is None:
            raise ValueError("key cannot be used with max_bytes, which splits by size")
        return digest_number(_key_bytes(key)) % self._num_shards

    def write(self, record: bytes, shard: int | None = None) -> None:
        """Write one record.

        Args:
            record: Bytes of the record.
            shard: Number of the shard. By default records go to all shards in turn, or to the
                current shard if there is a largest size.

        Raises:
            ValueError: If there would be too many shards.
            OSError: If the system refuses the write.
        """
        if self._max_bytes is not None:
            shard = -1
            if not self._files[-1].has_room(record, self._max_bytes):
                self._files[-1].prepare()
                self._open_next()
        elif shard is None:
            shard = self._next
            self._next = (shard + 1) % len(self._files)
        self._files[shard].write(record)

    def finish(self) -> list[Location]:
        """Write all shards to storage, so that the group can be committed, and return them.

        Raises:
            FileExistsError: If there are shards of this name and another number.
            OSError: If the system refuses a write.
        """
        for file in self._files:
            file.prepare()
        shards = shards_of(self._name, len(self._files))
        if self._replaces_others:
            self._group.remove(find_shards(self._name, outputs=shards))
        else:
            refuse_other_shards(self._name, shards)
        for file, location in zip(self._files, shards, strict=True):
            file.location = location
        return shards

    def _open_next(self) -> None:
        shard = len(self._files)
        if self._num_shards is not None:
            path = shard_path(self._name, shard, self._num_shards)
        elif shard == _MAX_SHARDS:
            raise ValueError(
                f"max_bytes is too small: the data needs more than {_MAX_SHARDS:,} shards"
            )
        else:
            # As long as the final name, so that a name that is too long is refused now.
            path = f"{self._name}-{shard:05d}-of-?????"
        try:
            file = self._group.open_records(
                self._name.at(path),
                self._compression,
                index=self._index,
                buffer_bytes=buffer_bytes_of(self._num_shards),
                has_name=self._num_shards is not None,
            )
        except OSError as error:
            if is_out_of_files(error):
                raise out_of_files(error) from None
            raise
        self._files.append(file)


class ShardedWriter(Writer):
    """Write records to several TFRecord files, all of them or none.

    The writer is a context manager. No file has its name before the writer is closed or the
    ``with`` block ends. Then all files are written to storage, existing files of the same names are
    removed, and the new ones are renamed. A failure before the first removal leaves the existing
    files as they were. A kill after it leaves some of the new files, which readers refuse, because
    their names say how many there must be.

    Args:
        name: Common start of the paths of the files, including the folder; :func:`shard_path`
            appends the rest.
        num_shards: Number of files to write, 1 to 99,999. All of them are open until the end.
            Records without a key go to one file after another, in turn.
        max_bytes: Instead of ``num_shards``, the largest size of a file in bytes, compressed if it
            is compressed. A larger record gets a file of its own.
        compression: Compression of the files: ``None``, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        index: Whether the index of each file is written, too.
        kinds: Stored dtypes of features of records that are dicts, as in :func:`encode_example`.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Raises:
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, or an argument
            is out of its range.
        FileExistsError: If there are shards of this name and another number, which readers would
            mix up with these. With ``max_bytes``, ``close`` raises it.
        TypeError: If ``kinds`` is not a mapping of names to dtypes.
        SchemaError: If ``kinds`` contains an unknown dtype.
        OSError: If a file cannot be created, as in :class:`TFRecordWriter`.
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
        storage_options: StorageOptions = None,
    ) -> None:
        super().__init__(name, kinds, storage_options)
        self._paths: list[str] | None = None
        try:
            self._shards = ShardFiles(
                self._group,
                self._target,
                num_shards,
                max_bytes=max_bytes,
                compression=compression,
                index=index,
            )
        except BaseException:
            self._group.discard()
            raise
        self._open()

    @property
    def paths(self) -> list[str]:
        """Paths of the files, once the writer is closed.

        Raises:
            ValueError: If the writer was not closed, or was discarded.
        """
        if self._paths is None:
            raise ValueError(f"{self!r} has no paths before it is closed")
        return list(self._paths)

    def write(self, record: Record, key: Key | None = None) -> None:
        """Write one record.

        Args:
            record: Record, as in :meth:`TFRecordWriter.write`.
            key: Key of the record. Records with equal keys go to the same shard, in every run and
                release: its number is the BLAKE2b-64 digest of the key, read as a little-endian
                integer, modulo ``num_shards``. A str counts as its UTF-8 bytes, an integer as its
                decimal digits.

        Raises:
            TypeError: If the record or the key is of a wrong type. The writer remains usable.
            ValueError: If a key is given although ``max_bytes`` splits the data, the record cannot
                be encoded, or the writer is closed.
            OSError: If the system refuses the write. All files are removed.
            RuntimeError: If this process is a fork of the one that opened the writer.
        """
        self._check_usable()
        shard = None if key is None else self._shards.shard_of(key)
        data = self._to_bytes(record)
        try:
            self._shards.write(data, shard)
        except BaseException as error:
            self._give_up(error)
            raise
        self._records += 1

    def _finish(self) -> None:
        count = len(self._shards.finish())
        super()._finish()
        self._paths = [shard_path(self._path, shard, count) for shard in range(count)]


def _key_bytes(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    try:
        return b"%d" % operator.index(key)
    except TypeError:
        raise TypeError(f"key must be bytes, a str or an int, got {type(key).__name__}") from None


def find_shards(
    name: Location, suffix: re.Pattern[str] = _SHARD_SUFFIX, outputs: Sequence[Location] = ()
) -> list[Location]:
    """Return the existing shards of a name that are not outputs.

    Args:
        name: Common start of the paths of the shards.
        suffix: Pattern of the rest of a shard's path.
        outputs: Shards that will be written.
    """
    folder, start = split_output(name)
    written = {shard.basename for shard in outputs}
    return [
        folder.child(other)
        for other in sorted(names_in(folder) - written)
        if other.startswith(start) and suffix.fullmatch(other[len(start) :])
    ]


def refuse_shards(name: Location, suffix: re.Pattern[str] = _SHARD_SUFFIX) -> None:
    """Raise an error if there are shards of a name, of any number.

    Raises:
        FileExistsError: If there is a shard.
    """
    for shard in find_shards(name, suffix)[:1]:
        raise FileExistsError(
            errno.EEXIST,
            "a shard of this name exists; choose another name, or replace all of them with "
            "force=True (--force)",
            shard.name,
        )


def refuse_other_shards(name: Location, outputs: Sequence[Location]) -> None:
    """Raise an error if there are other shards of a name, which readers would mix up with new ones.

    Args:
        name: Common start of the paths of the shards.
        outputs: Shards that will be written. They may exist.

    Raises:
        FileExistsError: If there is another shard.
    """
    for other in find_shards(name, outputs=outputs)[:1]:
        raise FileExistsError(
            errno.EEXIST,
            f"readers would mix it up with the {counted(len(outputs), 'shard')} to be written; "
            "remove the old shards first",
            other.name,
        )
