"""Decoders of gzip and zlib, native and of the package isal, compared with zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchrec_io.storage.compression import WINDOW_BITS, Compression
from torchrec_io.storage.decoder import (
    Decoder,
    start_inside,
    start_member,
    unpack_window,
)

KINDS = st.sampled_from(["gzip", "zlib"])
CONTENT = st.builds(
    lambda parts: b"".join(part * count for part, count in parts),
    st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 300)), max_size=8),
)
SIZES = st.integers(1, 1 << 16)
# The fixture is the same for all examples.
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["native", "isal"], autouse=True)
def which(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "isal":
        monkeypatch.setattr("torchrec_io.storage.decoder._inflate", None)
    return str(request.param)


def decode(decoder: Decoder, data: bytes, most_in: int, most_out: int) -> tuple[bytes, int]:
    """Return all bytes that can be decoded, and the number of bytes that this took."""
    source = np.frombuffer(data, np.uint8)
    out = np.empty(most_out, np.uint8)
    found = bytearray()
    at, given_bytes = 0, most_in
    while not decoder.is_done:
        consumed, produced = decoder.decode(source[at:given_bytes], out)
        at += consumed
        found += out[:produced].tobytes()
        if not produced and not decoder.is_done:
            if given_bytes >= len(data):
                break
            given_bytes += most_in
    return bytes(found), at


def packed(kind: str, content: bytes, level: int = 6) -> bytes:
    maker = zlib.compressobj(level, wbits=WINDOW_BITS[kind])  # type: ignore[index]
    return maker.compress(content) + maker.flush()


@EXAMPLES
@given(KINDS, CONTENT, st.integers(0, 9), SIZES, SIZES, st.binary(max_size=20))
def test_pieces_of_any_size_are_decoded(  # noqa: PLR0917
    kind: Compression, content: bytes, level: int, most_in: int, most_out: int, following: bytes
) -> None:
    data = packed(kind, content, level)
    decoder = start_member(kind)
    assert decode(decoder, data + following, most_in, most_out) == (content, len(data))
    assert decoder.is_done


@EXAMPLES
@given(CONTENT, st.binary(max_size=1 << 15), st.integers(0, 7), st.integers(0, 255), SIZES, SIZES)
def test_streams_start_at_any_bit_after_any_window(  # noqa: PLR0917
    content: bytes, window: bytes, bit: int, noise: int, most_in: int, most_out: int
) -> None:
    maker = zlib.compressobj(6, wbits=-15, zdict=window) if window else zlib.compressobj(wbits=-15)
    stream = maker.compress(content + window[-99:]) + maker.flush()
    bits = int.from_bytes(stream, "little") << bit | noise % (1 << bit)
    data = bits.to_bytes(len(stream) + 1, "little")
    decoder = start_inside(window, bit, data[0])
    found, _ = decode(decoder, data[bit > 0 :], most_in, most_out)
    assert found == content + window[-99:]
    assert decoder.is_done


@EXAMPLES
@given(KINDS, CONTENT, st.integers(0), SIZES, SIZES)
def test_truncated_streams_are_not_done(
    kind: Compression, content: bytes, place: int, most_in: int, most_out: int
) -> None:
    data = packed(kind, content)
    decoder = start_member(kind)
    found, _ = decode(decoder, data[: place % len(data)], most_in, most_out)
    assert content.startswith(found)
    assert not decoder.is_done


@EXAMPLES
@given(KINDS, CONTENT, st.integers(0), SIZES, SIZES)
def test_damage_is_an_error_or_harmless(
    kind: Compression, content: bytes, place: int, most_in: int, most_out: int
) -> None:
    data = bytearray(packed(kind, content))
    data[place // 8 % len(data)] ^= 1 << place % 8
    decoder = start_member(kind)
    try:
        found, _ = decode(decoder, bytes(data), most_in, most_out)
    except zlib.error as error:
        assert str(error)  # noqa: PT017
        return
    assert not decoder.is_done or found == content


@pytest.mark.parametrize("size", [0, 1, 1 << 15, (1 << 15) + 1])
def test_windows(size: int) -> None:
    window = bytes(number % 251 for number in range(size))
    data = zlib.compress(window)
    if size <= 1 << 15:
        assert unpack_window(data) == window
    else:
        with pytest.raises(zlib.error, match="window"):
            unpack_window(data)
    with pytest.raises(zlib.error):
        unpack_window(data[:-1])
    with pytest.raises(zlib.error):
        unpack_window(b"x" + data)


def test_a_reserved_kind_of_block_is_an_error() -> None:
    for bit in range(8):
        data = (0b111 << bit).to_bytes(2, "little") + bytes(9)
        with pytest.raises(zlib.error):
            decode(start_inside(b"", bit, data[0]), data[bit > 0 :], 99, 99)
