"""Bad JPEGs in a dataset: an error with the reason and the record, and bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import torchrec_io as tio
from tests.images.test_jpeg_markers import END, position_of, segment
from tests.support.images import column_of, encoded, noise, write_images

GOOD = encoded(noise(40, 50), "JPEG", quality=90)
PROGRESSIVE = encoded(noise(40, 50), "JPEG", quality=90, progressive=True)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def sized(data: bytes, height: int, width: int) -> bytes:
    """Return a JPEG whose frame header claims another size."""
    frame = position_of(data, 0xC2 if data == PROGRESSIVE else 0xC0)
    return patched(data, frame + 5, height.to_bytes(2, "big") + width.to_bytes(2, "big"))


def scan_bomb() -> bytes:
    last = PROGRESSIVE.rindex(b"\xff\xda")
    return PROGRESSIVE[:last] + PROGRESSIVE[last:-2] * 100 + END


FRAME = position_of(GOOD, 0xC0)
SCAN = position_of(GOOD, 0xDA)
# Files, and a part of the reason why they are refused.
BAD = {
    "empty": (b"", "its format is not known"),
    "truncated": (GOOD[: len(GOOD) // 2], "it is truncated"),
    "cut": (GOOD[: len(GOOD) // 2] + END, "premature end of data segment"),
    "cut, progressive": (PROGRESSIVE[: len(PROGRESSIVE) // 2] + END, "is incomplete"),
    "corrupt": (patched(GOOD, len(GOOD) // 2, b"\xff\x00" * 20), "Corrupt JPEG data"),
    "no pixels": (GOOD[:SCAN] + END, "is incomplete"),
    "no tables": (GOOD[:2] + GOOD[FRAME:], "table 0x00 was not defined"),
    "unknown marker": (GOOD[:2] + b"\xff\xbf" + GOOD[2:], "unknown or invalid"),
    "two frames": (GOOD[:FRAME] + GOOD[FRAME:SCAN] + GOOD[FRAME:], "more than one frame header"),
    "arithmetic coding": (patched(GOOD, FRAME + 1, b"\xc9"), "arithmetic or hierarchical"),
    "12 bits": (patched(GOOD, FRAME + 4, b"\x0c"), "must have 8 bits, got 12"),
    "no rows": (sized(GOOD, 0, 50), "unknown or invalid"),
    "a bomb": (sized(GOOD, 65_500, 65_500), "claims 65500 x 65500 pixels, more than max_pixels"),
    "a progressive bomb": (sized(PROGRESSIVE, 65_500, 65_500), "claims 65500 x 65500 pixels"),
    "more rows than data": (sized(GOOD, 65_500, 50), "premature end of data segment"),
    "more columns than data": (sized(GOOD, 40, 65_500), "premature end of data segment"),
    "a bomb of scans": (scan_bomb(), "more than 64 scans"),
    "a bomb of segments": (GOOD[:2] + segment(0xFE, b"") * 5000 + GOOD[2:], "4,096 segments"),
    "stray bytes": (GOOD[:SCAN] + b"x" * 70_000 + GOOD[SCAN:], "more than 65,536 bytes between"),
}
# Damage inside of scans and of tables, which Pillow cannot tell, and sizes beyond its own limit.
NATIVE = {
    *("cut", "corrupt", "no tables", "more rows than data", "more columns than data"),
    *("a bomb", "a progressive bomb"),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": (8, 8)},
        {"mixed": "pad"},
        {"size": (8, 8), "augment": tio.RandomFlip()},
        {"decoder": "pillow"},
    ],
)
def test_each_bad_jpeg_is_an_error_of_its_record(
    options: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"decoder": "native", **options}
    is_native = options["decoder"] == "native"
    cases = {name: case for name, case in BAD.items() if is_native or name not in NATIVE}
    images = [data for bad, _ in cases.values() for data in (GOOD, bad)]
    path = write_images(tmp_path / "x.tfrecord", images)
    found: list[Any] = []
    schema = {"image": tio.ImageFeature(**options)}
    dataset = tio.TFRecordDataset(path, schema, batch_size=50, on_error=found.append)
    [batch] = dataset
    assert len(batch["image"]) == len(cases)
    assert [error.record for error in found] == list(range(1, len(images), 2))
    for error, (name, (_, reason)) in zip(found, cases.items(), strict=True):
        assert type(error) is tio.DecodeError
        assert (error.path, error.feature) == (path, "image")
        assert "the image " in error.reason, name
        assert reason in error.reason, name
    if "augment" not in options:
        alone = column_of([GOOD], **options)[0]
        assert all(image.equal(alone) for image in batch["image"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("size", [(65_500, 3), (3, 65_500)])
def test_the_longest_sides(size: tuple[int, int]) -> None:
    array = noise(*size, 1)
    data = encoded(array, "JPEG", quality=100)
    options: dict[str, Any] = {"channels": 1, "layout": "HWC"}
    [native] = column_of([data], decoder="native", **options)
    [by_pillow] = column_of([data], decoder="pillow", **options)
    assert native.equal(by_pillow)
    resized = column_of([data], decoder="native", size=(7, 9), **options).int()
    expected = column_of([data], decoder="pillow", size=(7, 9), **options).int()
    assert (resized - expected).abs().max() <= 2


# ---- memory ----

MEMORY = """
import gc, resource, sys
import numpy as np
from torchrec_io._images.bad_value import BadValueError
from torchrec_io._images.native import decode_one
from torchrec_io._schema.image_spec import ImageFeature

def decode(path, **options):
    with open(path, "rb") as file:
        data = memoryview(file.read())
    return decode_one(data, ImageFeature(decoder="native", **options), np.random.default_rng)

def mebibytes_used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

decode(sys.argv[1], size=(8, 8))
"""


def run(code: str, *files: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", MEMORY + code, *map(str, files)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small JPEG, and a progressive one of 16 million pixels, whose coefficients take 32 MB."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "small.jpg").write_bytes(GOOD)
    large = Image.fromarray(np.zeros((4096, 4096), np.uint8))
    (folder / "large.jpg").write_bytes(encoded(large, "JPEG", progressive=True))
    return folder / "small.jpg", folder / "large.jpg"


def test_memory_is_bounded_by_the_limit_of_pixels(files: tuple[Path, Path], tmp_path: Path) -> None:
    for number, data in enumerate((sized(GOOD, 65_500, 65_500), sized(PROGRESSIVE, 65_500, 9000))):
        (tmp_path / str(number)).write_bytes(data)
    code = """
before = mebibytes_used()
for path in sys.argv[2:]:
    try:
        decode(path, max_pixels=1 << 20)
    except BadValueError as error:
        print(error)
print(mebibytes_used() - before)
"""
    *reasons, used = run(code, *files, tmp_path / "0", tmp_path / "1").splitlines()
    assert len(reasons) == 3
    assert all("more than max_pixels=1048576" in reason for reason in reasons)
    assert int(used) < 4


def test_lack_of_memory_is_no_error_of_the_image(files: tuple[Path, Path]) -> None:
    """A dataset that skips bad images must not skip this one."""
    code = """
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
limit = pages * resource.getpagesize() + (16 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    decode(sys.argv[2], size=(8, 8))
except MemoryError:
    print("no memory")
print(decode(sys.argv[1], size=(8, 8))[0].shape)
"""
    assert run(code, *files) == "no memory\n(8, 8, 3)\n"
