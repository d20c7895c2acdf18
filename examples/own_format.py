"""Read files of your own format: protobuf messages, each with its length as a varint prefix.

    python examples/own_format.py [FOLDER]

Protobuf's writeDelimitedTo and SerializeDelimitedToOstream write such files.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import torchrec_io as tio


class Delimited(tio.RecordFormat):
    """Messages with a varint length prefix: 7 bits per byte, least significant first."""

    name = "varint-delimited"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        yield file.tell()
        while head := file.peek(10)[:10]:
            size, start = read_varint(head)
            file.seek(start + size, 1)
            yield file.tell()

    def record(self, frame: memoryview) -> memoryview:
        size, start = read_varint(frame[:10])
        if start + size != len(frame):
            raise ValueError("the length prefix does not match the frame")
        return frame[start:]


def read_varint(data: bytes | memoryview) -> tuple[int, int]:
    """Return the number at the start of the data, and its size in bytes."""
    number = 0
    for position, byte in enumerate(data):
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, position + 1
    raise ValueError("the varint of a length is truncated")


def varint(number: int) -> bytes:
    """Encode a number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def main(folder: Path) -> None:
    """Write a file of such messages, and read them in shuffled batches."""
    folder.mkdir(parents=True, exist_ok=True)
    # The index goes to this folder instead of the user's cache directory.
    os.environ.setdefault("TORCHREC_IO_CACHE", str(folder / "cache"))
    path = folder / "messages"
    with path.open("wb") as file:
        for number in range(100):
            message = tio.encode_example({"id": number, "name": b"n" * number})
            file.write(varint(len(message)) + message)

    schema = {
        "id": tio.FixedLenFeature([], "int64"),
        "name": tio.FixedLenFeature([], "string"),
    }
    dataset = tio.RecordFileDataset(path, Delimited(), schema, batch_size=16, shuffle=True)
    ids = []
    for batch in dataset:
        assert [len(name) for name in batch["name"].tolist()] == batch["id"].tolist()
        ids += batch["id"].tolist()
    assert sorted(ids) == list(range(100)), "every message must be yielded once"
    assert ids != sorted(ids), "the order must be random"
    print(f"{len(ids)} messages of your own format, shuffled")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
