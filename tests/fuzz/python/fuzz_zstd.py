"""Decompression of Zstandard files, compared with the module that decodes them frame by frame.

Input: size of the reads (1 byte), a file.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.python.inputs import cut_options, empty_folder
from tests.support.chunks import open_chunks
from tests.support.inflated import read_all
from torchrec_io._storage.byte_source import find_size, read_bytes
from torchrec_io._storage.compression import detect_compression, is_zstd_magic
from torchrec_io._storage.inflater import Inflater
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.seek_points import SeekPointRecorder
from torchrec_io._storage.zstd import load_zstd

zstd = load_zstd()

# A few bytes can stand for many.
_MOST_BYTES = 4 << 20


def check(data: bytes) -> None:
    (step,), file = cut_options(data, 1)
    content, fault = _decompress(file)
    if len(content) > _MOST_BYTES:
        return
    with empty_folder() as folder:
        path = folder / "file"
        path.write_bytes(file)
        detect_compression(file[:4096])
        found, error = read_all(Inflater(LocalFile(path), "zstd"), 1 + step + len(content) // 999)
        assert found == content, "other bytes than the module's"
        assert (error is None) == (fault is None), f"{error!r}, but the module says {fault!r}"
        if fault is None:
            recorder = SeekPointRecorder(1 + len(content) // (1 + step))
            source = Inflater(LocalFile(path), "zstd", recorder=recorder)
            assert find_size(source) == (len(content), None)
            points = recorder.finish()
            chunks = open_chunks(path, "zstd", points, len(content))
            for offset in points.stream_offsets.tolist()[-20:]:
                assert read_bytes(chunks, offset, 300) == content[offset : offset + 300]


def _decompress(file: bytes) -> tuple[bytes, str | None]:
    """Decode a file byte by byte; return the bytes before the first damage, and the damage."""
    out = bytearray()
    at = 0
    while at < len(file):
        start, start_bytes = at, len(out)
        if at and not is_zstd_magic(file[at:]):
            return bytes(out), "stray bytes, or a frame that is cut"
        decoder = zstd.ZstdDecompressor()
        while not decoder.eof and at < len(file):
            try:
                out += decoder.decompress(file[at : at + 1], _MOST_BYTES + 1)
            except zstd.ZstdError as error:
                return bytes(out), str(error)
            if len(out) > _MOST_BYTES:
                return bytes(out), None
            at += 1
        if not decoder.eof:
            return bytes(out), "the end is missing"
        size = zstd.get_frame_info(file[start : start + 18]).decompressed_size
        if size not in (None, len(out) - start_bytes):
            return bytes(out), "another size than the header says"
    return bytes(out), None


def seeds() -> Iterator[bytes]:
    with_checksum = {zstd.CompressionParameter.checksum_flag: 1}
    contents = (b"", b"a", bytes(3000), bytes(range(256)) * 20)
    for step, content in enumerate(contents):
        for options in (None, with_checksum):
            yield bytes([step]) + zstd.compress(content, options=options)
    frame = zstd.compress(b"frame", options=with_checksum)
    yield b"\0" + frame + b"\x5e\x2a\x4d\x18\x04\x00\x00\x00skip" + frame
    yield b"\0" + frame + b"stray"
    yield b"\0" + frame + frame[:-3]
