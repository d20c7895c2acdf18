"""Chunks of compressed files."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchrec_io._storage.chunk_cache import Chunk, ChunkCache
from torchrec_io._storage.compressed_file import CompressedFile
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.seek_points import SeekPoints


def open_chunks(
    path: Path, kind: Compression, points: SeekPoints, size: int, cache: int = 1 << 20
) -> CompressedFile:
    """Return the content of a compressed file, readable at any offset."""
    return CompressedFile(LocalFile(path), kind, points, size, ChunkCache(cache))


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each decoding of a chunk adds its number."""
    decoded: list[int] = []
    original = CompressedFile.load

    def load(self: CompressedFile, number: int, size: int) -> Chunk:
        decoded.append(number)
        return original(self, number, size)

    monkeypatch.setattr(CompressedFile, "load", load)
    return decoded
