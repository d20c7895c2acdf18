"""Manifests of folders: entries that can be written again as they were, or an IndexFormatError.

Input: options (1 byte); bytes of a manifest, or its lines, to which a right first line is added.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.fuzz.python.inputs import cut_options
from torchrec_io import _core
from torchrec_io._records.index_file import IndexFacts
from torchrec_io._records.manifest import ManifestEntry, decode_manifest, encode_manifest
from torchrec_io.errors import IndexFormatError

_SIGNED = 1


def check(data: bytes) -> None:
    (bits,), content = cut_options(data, 1)
    if bits & _SIGNED:
        content = signed(content)
    try:
        entries = decode_manifest(content, "manifest")
    except IndexFormatError:
        return
    assert decode_manifest(encode_manifest(entries), "manifest") == entries, "not written as read"
    for name, (facts, *_) in entries.items():
        assert name, "an object has no name"
        assert "/" not in name, "an object of another folder"
        assert facts.records <= facts.data_bytes * (1 << 15) // 16, "too many records"


def signed(lines: bytes) -> bytes:
    """Return a manifest of these lines, with a right checksum."""
    crc = _core.crc32c(np.frombuffer(lines, np.uint8))
    return b"torchrec_io manifest 2 %08x\n" % crc + lines


def seeds() -> Iterator[bytes]:
    entries = {
        "a": ManifestEntry(IndexFacts(3, 100, 5), '"tag"'),
        "b é": ManifestEntry(IndexFacts(900, 100, 5, "gzip"), ""),
        "c": ManifestEntry(IndexFacts(0, 0, 1 << 63, "zlib"), "v"),
    }
    for count in range(4):
        valid = encode_manifest(dict(list(entries.items())[:count]))
        yield b"\0" + valid
        yield b"\0" + valid[:-1]
        lines = valid.partition(b"\n")[2]
        for at in range(len(lines)):
            changed = bytearray(lines)
            changed[at] ^= 0xFF
            yield b"\1" + changed
            changed[at] ^= 0xFE
            yield b"\1" + changed
