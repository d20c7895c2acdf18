"""Manifests of folders: entries that can be written again as they were, or an IndexFormatError.

Input: options (1 byte); bytes of a manifest, of which the checksums may be made right.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from tests.fuzz.python.inputs import cut_options
from torchrec_io import _core
from torchrec_io.errors import IndexFormatError
from torchrec_io.records.index import IndexFacts
from torchrec_io.records.index_manifest import ManifestEntry, decode_manifest, encode_manifest

_SIGNED, _START = 1, 48


def check(data: bytes) -> None:
    (bits,), content = cut_options(data, 1)
    if bits & _SIGNED:
        content = signed(content)
    try:
        entries = decode_manifest(content, "manifest")
    except IndexFormatError:
        return
    assert encode_manifest(entries) == content, "another manifest has the same entries"
    for name, (facts, *_) in entries.items():
        assert name, "an object has no name"
        assert "/" not in name, "an object of another folder"
        assert facts.records <= facts.data_bytes * 1032 // 16, "too many records"


def signed(content: bytes) -> bytes:
    """Return a manifest with right checksums."""
    if len(content) < _START:
        return content
    head = content[:40] + struct.pack("<I", _crc(content[_START:]))
    return head + struct.pack("<I", _crc(head)) + content[_START:]


def _crc(data: bytes) -> int:
    return _core.crc32c(np.frombuffer(data, np.uint8))


def seeds() -> Iterator[bytes]:
    entries = {
        "a": ManifestEntry(IndexFacts(3, 100, 5), '"tag"'),
        "b é": ManifestEntry(IndexFacts(900, 100, 5, "gzip"), ""),
        "c": ManifestEntry(IndexFacts(0, 0, 1 << 63, "zlib"), "v", "index"),
    }
    for count in range(4):
        sound = encode_manifest(dict(list(entries.items())[:count]))
        yield b"\0" + sound
        yield b"\0" + sound[:-1]
        for at in range(len(sound)):
            changed = bytearray(sound)
            changed[at] ^= 0xFF
            yield b"\1" + changed
            changed[at] ^= 0xFE
            yield b"\1" + changed
