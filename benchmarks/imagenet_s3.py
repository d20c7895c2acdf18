"""How fast are ImageNet's images read from an S3 store and cut out for training?

python -m benchmarks.imagenet_s3 [--scale 1] [--rounds 3] [--libraries NAME...]

It repeats the headline of LitData's README on one machine, with a store on the same machine and
photos of the size of ImageNet's: ``RandomResizedCrop(224)``, mirrored at random, float32, less the
mean, divided by the standard deviation.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.common import arguments, run_child, spread, table
from benchmarks.image_data import HEIGHT, SIZE, WIDTH, photos
from benchmarks.imagenet_case import BATCH, GRID_STEP
from benchmarks.peers.venvs import SetupError, python_of
from tests.support.stores import BUCKET, S3Server, s3_server

_OURS = "ours"
_NAMES = {
    _OURS: "torchrec_io",
    "litdata": "LitData",
    "webdataset": "WebDataset",
    "mosaicml": "MosaicML Streaming",
}
_IMAGES = 4096
_PHOTOS = 1024  # different ones; each is in the data several times
_QUALITY = 97  # makes 105 KB of a photo, which is the average of ImageNet
_MOST_FAILURES = 5
_MOST_DIFFERENCE = 0.5  # average difference of pixels from those of Pillow, in levels


class _Library:
    """A library with its copy of the images in the store.

    Attributes:
        name: Name in the table.
        epochs: Measurements of the first and the second epoch of each round.
        failures: Number of processes that failed and were started again.
    """

    def __init__(self, module: str, folder: Path, server: S3Server, count: int) -> None:
        self.name = _NAMES[module]
        self.epochs: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
        self.failures = 0
        self._module = module
        self._python = python_of(module)
        copy = folder / module
        copy.mkdir()
        self._run({"prepare": str(copy), "photos": str(folder / "photos"), "count": count})
        server.put_files(copy, module)
        cpus = len(os.sched_getaffinity(0))
        self._case = {
            "url": f"s3://{BUCKET}/{module}/", "config": server.options(), "workers": cpus
        }  # fmt: skip

    def check(self, folder: Path, count: int) -> None:
        """Compare each image with what Pillow makes of it."""
        path = folder / f"{self._module}.npy"
        self._run(self._case | {"grids": str(path)})
        grids, expected = np.load(path), _grids_of(folder / "photos")
        assert len(grids) == count, f"{self.name}: {len(grids)} images"
        wanted = expected[np.arange(count) % len(expected)]
        difference = np.abs(grids.astype(np.int16) - wanted).mean()
        assert difference < _MOST_DIFFERENCE, f"{self.name}: differs by {difference}"

    def measure(self) -> None:
        """Measure two epochs of a fresh process."""
        for epochs, found in zip(self.epochs, self._run(self._case), strict=True):
            epochs.append(found)

    def _run(self, case: dict[str, Any]) -> Any:
        """Run a process of the library; start one of another library again if it fails.

        A worker of MosaicML Streaming may read a shard that another one is still downloading, and
        finds samples without bytes. Failures are counted and printed.
        """
        while True:
            try:
                return run_child(
                    "imagenet_case", self._module, json.dumps(case), python=self._python
                )
            except RuntimeError:
                self.failures += 1
                if self._module == _OURS or self.failures > _MOST_FAILURES:
                    raise


def _grids_of(folder: Path) -> Any:
    """Return some pixels of each photo, resized by Pillow; uint8 ``[n, 3, 32, 32]``."""
    grids = []
    for path in sorted(folder.iterdir()):
        image = Image.open(path).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        grids.append(np.asarray(image)[::GRID_STEP, ::GRID_STEP].transpose(2, 0, 1))
    return np.stack(grids)


def _row(library: _Library, ours: _Library) -> list[object]:
    """Return the rates of both epochs, and those of this library relative to them."""
    row: list[object] = [library.name]
    for unit in ("seconds", "cpu_seconds"):
        for theirs, own in zip(library.epochs, ours.epochs, strict=True):
            rates = [found["images"] / found[unit] for found in theirs]
            ratios = [a[unit] / b[unit] for a, b in zip(theirs, own, strict=True)]
            row.append(f"{statistics.median(rates):,.0f}")
            row.append("" if library is ours else spread(ratios))
    return row


def _table(libraries: list[_Library]) -> str:
    headers = ["Library"]
    for unit in ("Images/s", "Images per CPU-second"):
        for epoch in ("first", "second"):
            headers += [f"{unit}, {epoch} epoch", "torchrec_io relative to it"]
    return table(headers, [_row(library, libraries[0]) for library in libraries])


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, rounds=3)
    others = [name for name in _NAMES if name != _OURS]
    parser.add_argument("--libraries", nargs="*", default=others, choices=others)
    parsed = parser.parse_args()
    count = max(1, round(_IMAGES * parsed.scale / BATCH)) * BATCH
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, s3_server() as server:
        folder = Path(name)
        os.environ["TORCHREC_IO_CACHE"] = str(folder / "index")
        size = _write_photos(folder / "photos", min(_PHOTOS, count))
        libraries = []
        for module in (_OURS, *parsed.libraries):
            try:
                libraries.append(_Library(module, folder, server, count))
            except SetupError as error:
                print(f"{module} cannot be installed: {error}")
        for library in libraries:
            library.check(folder, count)
        for number in range(parsed.rounds):
            for library in libraries[:: -1 if number % 2 else 1]:
                library.measure()
        print(f"{count} images of {size / 1000:.0f} KB on average, batches of {BATCH}\n")
        print(_table(libraries))
        for library in libraries:
            if library.failures:
                print(f"\n{library.name} failed {library.failures} times and was started again.")


def _write_photos(folder: Path, count: int) -> float:
    """Write photos and return their average size in bytes."""
    folder.mkdir()
    sizes = []
    for number, image in enumerate(photos([(HEIGHT, WIDTH)] * count, quality=_QUALITY)):
        (folder / f"{number:05}.jpg").write_bytes(image)
        sizes.append(len(image))
    return statistics.mean(sizes)


if __name__ == "__main__":
    main()
