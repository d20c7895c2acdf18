"""Recognition of files of other formats that are mistaken for TFRecord files."""

from __future__ import annotations

from .._storage.compression import detect_compression, is_text

# Number of bytes that are enough to recognize a file.
HEAD_BYTES = 512
# Offset and bytes of the mark of each format, and the error about it.
_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (
        0,
        b"version https://git-lfs",
        "this is a git-lfs pointer, not the data it stands for; run 'git lfs pull'",
    ),
    (0, b"\x83\xaf\x70\xd1", "this is a Riegeli file, not a TFRecord file"),
    (
        257,
        b"ustar",
        "this is a tar archive, not a TFRecord file; unpack it, or read it with webdataset",
    ),
    (
        0,
        b"PK\x03\x04",
        "this is a zip archive, not a TFRecord file; unpack it (torchrec-io convert reads .npz)",
    ),
    (
        0,
        b"PAR1",
        "this is a Parquet file, not a TFRecord file; 'torchrec-io convert' makes TFRecord of it",
    ),
    (0, b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, not a TFRecord file; read it with h5py"),
    (
        16,
        b"\xde\xc0\xef\xbe",
        "this is an LMDB database, not a TFRecord file; read it with the package lmdb",
    ),
    (0, b"ARROW1", "this is an Arrow file, not a TFRecord file; read it with pyarrow"),
    (0, b"\x93NUMPY", "this is a NumPy array (.npy), not a TFRecord file; read it with numpy.load"),
    (0, b"SQLite format 3\0", "this is an SQLite database, not a TFRecord file"),
    (0, b"\xfd7zXZ\0", "this file is compressed by xz; decompress it, or use gzip"),
    (0, b"BZh", "this file is compressed by bzip2; decompress it, or use gzip"),
)

# The errors about formats that are recognized with certainty.
FOREIGN_REASONS = frozenset(reason for _, _, reason in _MARKS)


def foreign_file(head: bytes) -> str | None:
    """Return why a file is not a TFRecord file, if its format is recognized.

    Args:
        head: First bytes of the file, which does not start with a TFRecord header.
    """
    for offset, mark, reason in _MARKS:
        if head.startswith(mark, offset):
            return reason
    if detect_compression(head[:64]) is not None:
        return "this looks compressed, but is read as it is stored (compression=None)"
    if is_text(head[:4]):
        return "this looks like text, not like a TFRecord file"
    return None
