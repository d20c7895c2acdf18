"""Indexes beside TFRecord files: whatever an index holds, all intact records are read, or an error.

Input: options (1 byte); then, separated by lines ``---``: sizes of the records of the data file,
bytes that depend on the options, edits of the data file. An edit is an offset (2 bytes) and a
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options, cut_parts, empty_folder
from tests.support.tfrecord import write_tfrecord
from torchrec_io.errors import TorchRecIOError

# The index is that of the data with edits; of other data; of a text; of any bytes.
_KINDS = ("edited", "other", "text", "bytes")
_GZIP = 4
_MOST_RECORDS = 40


def check(data: bytes) -> None:
    (bits,), rest = cut_options(data, 1)
    sizes, content, edits = cut_parts(rest, 3)
    kind = _KINDS[bits % len(_KINDS)]
    compression = "gzip" if bits & _GZIP and kind != "text" else None
    records = _records(sizes)
    with empty_folder() as folder:
        path = write_tfrecord(folder / "data.tfrecord", records, compression)
        index = folder / "data.tfidx"
        try:
            _write_index(kind, content, path, index)
        except TorchRecIOError:
            assert kind == "text", "a whole file cannot be indexed"
            return
        if edits:
            path.write_bytes(_edited(path.read_bytes(), edits))
        _check_reading(path, index, records)


def _records(sizes: bytes) -> list[bytes]:
    return [bytes([65 + n]) * size for n, size in enumerate(sizes[:_MOST_RECORDS])]


def _write_index(kind: str, content: bytes, path: Path, index: Path) -> None:
    if kind == "edited":
        tio.RecordIndex.build(path).save(index)
        index.write_bytes(_edited(index.read_bytes(), content))
    elif kind == "other":
        other = path.with_name("other.tfrecord")
        write_tfrecord(other, [record[::-1] for record in _records(content)])
        tio.RecordIndex.build(other).save(index)
    elif kind == "text":
        text = path.with_name("index.txt")
        text.write_bytes(content)
        tio.RecordIndex.from_text(text, path).save(index)
    else:
        index.write_bytes(content)


def _edited(data: bytes, edits: bytes) -> bytes:
    changed = bytearray(data)
    for at in range(0, len(edits) - 2, 3):
        if changed:
            changed[int.from_bytes(edits[at : at + 2], "little") % len(changed)] = edits[at + 2]
    return bytes(changed)


def _check_reading(path: Path, index: Path, records: list[bytes]) -> None:
    found: list[bytes] = []
    try:
        loaded = tio.RecordIndex.load(index, path)
        assert len(loaded.offsets) == len(loaded)
        for record in tio.TFRecordDataset(path, index=index, num_threads=1):
            found.append(bytes(record))
    except TorchRecIOError as error:
        assert error.path is not None, "the error does not name the file"
        assert found == records[: len(found)], "wrong records before the error"
        return
    assert found == records, "wrong records"


def seeds() -> Iterator[bytes]:
    text = b"0 17\n17 16\n33 46\n"
    for sizes in (b"\1\0\36", bytes(range(1, 30)), b""):
        for bits in range(8):
            for content in (b"", b"\30\0\2", b"\1\0", text, sizes):
                yield bytes([bits]) + sizes + b"\n---\n" + content
        yield b"\0" + sizes + b"\n---\n\n---\n\20\0\1"
