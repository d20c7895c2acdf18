"""Indexes with valid checksums, whatever they say about their data files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from torchrec_io import _core
from torchrec_io._records.formats import TFRECORD
from torchrec_io._storage.compression import CHECKED_BYTES
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.seek_points import START, SeekPoints


def write_index(
    data: Path,
    starts: list[int],
    end: int,
    *,
    compression: _core.Compression = _core.Compression.none,
    header_bytes: int | None = None,
    footer_bytes: int = 0,
    gaps: tuple[_core.Gap, ...] = (),
) -> Path:
    """Write an index with valid checksums beside a data file."""
    file = LocalFile(data)
    header = _core.IndexHeader(
        format=0,
        compression=compression,
        data_bytes=file.stamp.size,
        data_mtime_ns=file.stamp.mtime_ns,
        data_fingerprint=TFRECORD.fingerprint(file, file.stamp.size),
        stream_end=end,
        header_bytes=(starts[0] if starts else end) if header_bytes is None else header_bytes,
        footer_bytes=footer_bytes,
    )
    section = np.empty(0, np.uint8)
    if compression is not _core.Compression.none:
        size = (gaps[-1].end if gaps else end) + footer_bytes
        points = SeekPoints.of([START], [0] * -(-size // CHECKED_BYTES))
        section = np.frombuffer(points.encode(), np.uint8)
    content = _core.encode_index(header, np.array(starts, np.uint64), list(gaps), section)
    path = data.with_name(data.name + ".tfidx")
    path.write_bytes(content)
    return path
