"""Files that test framing and compression."""

from __future__ import annotations

from .build import example, ints, strings


def plain_records() -> list[bytes]:
    """Records of many lengths, Examples or not: framing does not care."""
    return [
        b"first record",
        b"\x00",
        bytes(range(256)),
        b"",
        example({"label": ints(7), "name": strings(b"seven")}),
        b"long record " * 250,
        "Prüfung ✓".encode(),
    ]


def framing_files() -> list[tuple[str, list[bytes], str]]:
    """Names, records and compressions."""
    records = plain_records()
    files: list[tuple[str, list[bytes], str]] = []
    for suffix, compression in (("", ""), (".gz", "GZIP"), (".zlib", "ZLIB")):
        files.append((f"plain.tfrecord{suffix}", records, compression))
        files.append((f"empty.tfrecord{suffix}", [], compression))
    return [*files, ("zero_length.tfrecord", [b"before", b"", b"", b"after", b""], "")]
