"""Changed files of the cache: results are the same as without it.

With a correct checksum a changed result may be believed, as if it were another predicate's: records
are still whole and none comes twice. Steps are those of their records, or an error.

Input: options (1 byte), new size (2 bytes), then edits of the cached file: offset (2 bytes), value.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._storage.digest import digest

_LENGTHS, _REPAIRED, _RESIZED, _STEPS = 1, 2, 4, 8
_COUNT = 70
_SCHEMA = {"id": tio.FixedLenFeature([], "int64"), "tokens": tio.VarLenFeature("int64")}
_CHECK_BYTES = 16


class _Cached(NamedTuple):
    """A file of the cache.

    Attributes:
        path: Path of the file.
        content: Content that the package wrote.
        ids: The "id" of the records of its dataset, in order.
    """

    path: Path
    content: bytes
    ids: list[int]


def check(data: bytes) -> None:
    (bits, *size), edits = cut_options(data, 3)
    kind = _STEPS if bits & _STEPS else bits & _LENGTHS
    cached = _cached(kind)
    content = bytearray(cached.content)
    for at in range(0, len(edits) - 2, 3):
        content[int.from_bytes(edits[at : at + 2], "little") % len(content)] = edits[at + 2]
    if bits & _RESIZED:
        wanted = int.from_bytes(bytes(size), "little")
        content = content[:wanted].ljust(wanted, b"\xff")
    if bits & _REPAIRED and len(content) > _CHECK_BYTES:
        body = bytes(content[:-_CHECK_BYTES])
        content = bytearray(body + digest(body, size=_CHECK_BYTES))
    cached.path.write_bytes(content)
    try:
        found = _read(kind)
    except tio.TorchRecIOError:
        assert bits & _REPAIRED, "a damaged cache is an error"
        assert kind == _STEPS
        return
    except ValueError as error:
        assert bits & _REPAIRED, "a damaged cache is an error"
        assert "longer than batch_tokens" in str(error)  # made-up lengths
        return
    if bits & _REPAIRED and kind == _STEPS:
        assert set(found) <= set(cached.ids), "a step that does not exist"
    elif bits & _REPAIRED:
        assert len(set(found)) == len(found), "a record twice"
        assert set(found) <= set(range(_COUNT)), "a record that does not exist"
        assert kind != _LENGTHS or len(found) == _COUNT, "a record is missing"
    else:
        assert found == cached.ids, "other records than without the cache"


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="torchrec_io-fuzz-"))
    records = []
    for number in range(_COUNT):
        pairs = [bytes([number, 0, step, 0]) for step in range(number % 5)]
        values: dict[str, Any] = {"id": [number], "tokens": [number] * len(pairs), "steps": pairs}
        records.append(example_of(**values))
    write_tfrecord(folder / "data.tfrecord", records)
    return folder


@functools.cache
def _cached(kind: int) -> _Cached:
    ids = _read(kind)
    suffix = {_LENGTHS: "tflen", _STEPS: "tfsteps"}.get(kind, "tfpass")
    (path,) = (_folder() / "cache").glob(f"*.{suffix}")
    return _Cached(path, path.read_bytes(), ids)


def _read(kind: int) -> list[int]:
    before = os.environ.get("TORCHREC_IO_CACHE")
    os.environ["TORCHREC_IO_CACHE"] = str(_folder() / "cache")
    try:
        dataset: Any = tio.TFRecordDataset(
            _folder() / "data.tfrecord", _SCHEMA, num_threads=1, **_batches(kind == _LENGTHS)
        )
        if kind == _STEPS:
            schema = {"steps": tio.SequenceFeature(tio.RawFeature("uint16", shape=[2]))}
            steps = dataset.replace(schema=schema).steps()
            return [100 * int(row[0]) + int(row[1]) for batch in steps for row in batch["steps"]]
        if not kind:
            dataset = dataset.where(_is_chosen, cache_key="chosen")
        return [number for batch in dataset for number in batch["id"].tolist()]
    finally:
        os.environ.pop("TORCHREC_IO_CACHE")
        if before is not None:
            os.environ["TORCHREC_IO_CACHE"] = before


def _batches(with_lengths: bool) -> dict[str, Any]:
    return {"batch_tokens": 20, "length_key": "tokens"} if with_lengths else {"batch_size": 16}


def _is_chosen(batch: tio.Batch) -> Any:
    return batch["id"] % 3 == 0


def seeds() -> Iterator[bytes]:
    for kind in (0, _LENGTHS, _STEPS):
        yield bytes([kind, 0, 0])
        yield bytes([kind, 0, 0, 90, 0, 7])
        yield bytes([kind, 0, 0, 0, 0, 0])
        yield bytes([kind | _REPAIRED, 0, 0, 90, 0, 7, 100, 0, 0])
        yield bytes([kind | _REPAIRED, 0, 0, 24, 0, 4])
        for size in (0, 10, 100, 300):
            yield bytes([kind | _RESIZED]) + size.to_bytes(2, "little")
