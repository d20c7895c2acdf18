"""Files and datasets of formats other than TFRecord."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import torchrec_io as tio

COUNTS = [13, 1, 7, 10]
COUNT = sum(COUNTS)


class Netstrings(tio.RecordFormat):
    """Format of records such as "5:hello,": decimal length, bytes, comma."""

    name = "netstrings"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        yield 0
        while head := _until_colon(file):
            if not head.isdigit():
                raise ValueError(f"{head!r} is no length")
            file.seek(int(head) + 1, 1)
            yield file.tell()

    def record(self, frame: memoryview) -> bytes:
        head, _, rest = bytes(frame).partition(b":")
        if not head.isdigit() or len(rest) != int(head) + 1 or not rest.endswith(b","):
            raise ValueError("it is no netstring")
        return rest[:-1]


def _until_colon(file: BufferedReader) -> bytes:
    head = b""
    while (byte := file.read(1)) and byte != b":":
        head += byte
    return head


def netstring(record: bytes) -> bytes:
    return b"%d:%s," % (len(record), record)


def write_kinds(folder: Path) -> dict[str, Any]:
    """Write files of each kind. Their records are the numbers from 0, as 4 characters."""
    kinds: dict[str, Any] = {"lines": [], "fixed": [], "whole": [], "own": []}
    first = 0
    for file, count in enumerate(COUNTS):
        texts = [b"%04d" % number for number in range(first, first + count)]
        contents = {
            "lines": b"a header\n" + b"\n".join(texts),
            "fixed": b"head" + b"".join(texts) + b"foot!",
            "own": b"".join(map(netstring, texts)),
        }
        for kind, content in contents.items():
            path = folder / f"{kind}-{file}"
            path.write_bytes(content)
            kinds[kind].append(str(path))
        for number, text in enumerate(texts, first):
            path = folder / f"whole-{number:03}"
            path.write_bytes(text)
            kinds["whole"].append(str(path))
        first += count
    return kinds


def make(kind: str, paths: Any, schema: Any = int, **options: Any) -> Any:
    """Return a dataset of the files of :func:`write_kinds`."""
    if kind == "lines":
        return tio.TextLineDataset(paths, schema, skip_header_lines=1, **options)
    if kind == "fixed":
        return tio.FixedLengthRecordDataset(
            paths, 4, schema, header_bytes=4, footer_bytes=5, **options
        )
    make_other: Callable[..., Any] = tio.WholeFileDataset
    if kind == "own":
        return tio.RecordFileDataset(paths, Netstrings(), schema, **options)
    return make_other(paths, schema, **options)
