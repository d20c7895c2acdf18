"""Images: TensorFlow's decode_image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conftest import TfOracle
from tests.features.test_image_rules import as_ycck, damaged_jpeg, frames, png16
from tests.support.images import Pixels, decoded, encoded, noise, oriented, smooth
from torchrec_io.errors import DecodeError


def theirs(oracle: TfOracle, data: bytes, channels: int) -> Pixels | None:
    """What TensorFlow makes of an image; None if it refuses."""
    answer = oracle.ask(op="decode_image", data=data.hex(), channels=channels)
    if "error" in answer:
        return None
    return np.frombuffer(bytes.fromhex(answer["content"]), np.uint8).reshape(answer["shape"])


def pngs() -> Iterator[Any]:
    for channels in (1, 3, 4):
        yield f"png-{channels}", encoded(noise(5, 6, channels)), channels < 3
    for channels in (1, 2, 3, 4):
        values = np.random.default_rng(channels).integers(0, 2**16, (5, 7, channels), np.uint16)
        yield f"png16-{channels}", png16(values), channels < 3
    yield "gray-alpha", encoded(Image.fromarray(noise(5, 6, 4)).convert("LA")), True
    yield "bmp", encoded(noise(5, 6), "BMP"), False


PNGS = {name: (data, is_gray) for name, data, is_gray in pngs()}


@pytest.mark.parametrize("name", PNGS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_lossless_images(tf_oracle: TfOracle, name: str, channels: int) -> None:
    data, is_gray = PNGS[name]
    if name == "bmp" and channels == 1:
        assert theirs(tf_oracle, data, channels) is None  # where we convert
        return
    found, expected = decoded(data, channels=channels), theirs(tf_oracle, data, channels)
    assert expected is not None
    if channels == 1 and not is_gray:
        # The weights of the colors are the same, the rounding is not.
        assert np.abs(found.astype(int) - expected).max() <= 1
    else:
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["P", "1"])
def test_palettes_and_bits(tf_oracle: TfOracle, mode: str) -> None:
    image = Image.fromarray(noise(5, 6))
    data = encoded(image.quantize(8) if mode == "P" else image.convert("1"))
    expected = theirs(tf_oracle, data, 3)
    assert expected is not None
    assert decoded(data).tolist() == expected.tolist()


def jpegs() -> Iterator[tuple[str, bytes]]:
    array = smooth(40, 50)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        yield subsampling, encoded(array, "JPEG", quality=90, subsampling=subsampling)
    yield "progressive", encoded(array, "JPEG", quality=90, progressive=True)
    yield "gray", encoded(array[:, :, 0].copy(), "JPEG", quality=90)
    cmyk = encoded(Image.fromarray(array).convert("CMYK"), "JPEG", quality=95)
    yield "cmyk", cmyk
    yield "ycck", as_ycck(cmyk)
    yield "turned", encoded(array, "JPEG", exif=oriented(6))


JPEGS = dict(jpegs())


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("decoder", ["pillow", "simplejpeg"])
def test_jpegs_by_the_exact_transform(tf_oracle: TfOracle, name: str, decoder: str) -> None:
    expected = theirs(tf_oracle, JPEGS[name], 3)
    assert expected is not None
    assert decoded(JPEGS[name], decoder=decoder).tolist() == expected.tolist()


def test_jpegs_as_gray(tf_oracle: TfOracle) -> None:
    """TensorFlow takes the stored luma, we that of the colors: they are rounded once more."""
    for name in ("4:4:4", "4:2:0", "gray"):
        expected = theirs(tf_oracle, JPEGS[name], 1)
        assert expected is not None
        apart = np.abs(decoded(JPEGS[name], channels=1).astype(int) - expected)
        assert apart.max() <= (0 if name == "gray" else 2)


@pytest.mark.parametrize("kind", ["GIF", "PNG"])
def test_first_frames(tf_oracle: TfOracle, kind: str) -> None:
    expected = theirs(tf_oracle, frames(kind), 3)
    assert expected is not None
    assert decoded(frames(kind)).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_both_refuse_what_is_cut_short(tf_oracle: TfOracle, kind: str) -> None:
    whole = encoded(noise(40, 40), kind)
    for data in (whole[: len(whole) // 2], b"", b"no image", whole[:20]):
        assert theirs(tf_oracle, data, 3) is None
        with pytest.raises(DecodeError):
            decoded(data)


def test_both_pass_over_wrong_bits_of_a_jpeg(tf_oracle: TfOracle) -> None:
    """But simplejpeg does not."""
    expected = theirs(tf_oracle, damaged_jpeg(), 3)
    assert expected is not None
    assert decoded(damaged_jpeg()).tolist() == expected.tolist()
    with pytest.raises(DecodeError):
        decoded(damaged_jpeg(), decoder="simplejpeg")
