"""Reads files of a format of one's own: protobuf messages, each behind its length as a varint.

    python examples/own_format.py [FOLDER]

That is how protobuf's writeDelimitedTo and SerializeDelimitedToOstream write them.
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
    """Messages behind their lengths, which are varints: 7 bits a byte, least significant first."""

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
            raise ValueError("the frame is longer or shorter than its message")
        return frame[start:]


def read_varint(data: bytes | memoryview) -> tuple[int, int]:
    """A number at the start of some bytes, and how many of them it takes."""
    number = 0
    for place, byte in enumerate(data):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, place + 1
    raise ValueError("a length does not end")


def varint(number: int) -> bytes:
    """A number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def main(folder: Path) -> None:
    """Writes a file of such messages and reads them shuffled, in batches."""
    folder.mkdir(parents=True, exist_ok=True)
    # Where the index is kept; by default in the user's cache directory.
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
    assert sorted(ids) == list(range(100)), "every message comes once"
    assert ids != sorted(ids), "in random order"
    print(f"{len(ids)} messages of a format of one's own, shuffled")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
