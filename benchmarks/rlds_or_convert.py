"""What does training from RLDS episodes cost, compared with a conversion that is read by frame?

The conversion has the layout of LeRobot datasets of images: numbers of each episode in a Parquet
file, and a JPEG file for each frame, with the bytes that RLDS stores. It is read by a map-style
dataset with Pillow, as LeRobot reads it. Both give the same samples in an order of their own: two
cameras at one step, and the next 16 actions, clamped to the episode. Each measurement runs in a
process of its own, with one thread. Run it with ``python -m benchmarks.rlds_or_convert``.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import torchrec_io as tio
from benchmarks.common import MB, arguments, run_child, spread, table, warm
from benchmarks.workloads import data_dir

_EPISODES, _STEPS, _HORIZON, _BATCH_SIZE, _BATCHES = 24, 250, 16, 32, 60
_CAMERAS = ("front", "wrist")
_HEIGHT, _WIDTH = 180, 320


def _schema(image: Any) -> dict[str, Any]:
    seven = [tio.RaggedFeature.UniformRowLength(7)]
    observation = dict.fromkeys(_CAMERAS, image)
    numbers = tio.RaggedFeature("float32", partitions=seven)
    return {"steps": {"observation": {**observation, "state": numbers}, "action": numbers}}


# ---- the data ----


def _write(path: Path, episodes: int) -> None:
    """Write episodes as RLDS stores them: a record each, with a list of JPEGs for each camera."""
    rng = np.random.default_rng(1)
    with tio.TFRecordWriter(path) as writer:
        for _ in range(episodes):
            record: dict[str, Any] = {
                f"steps/observation/{name}": [_picture(rng) for _ in range(_STEPS)]
                for name in _CAMERAS
            }
            for name in ("action", "observation/state"):
                record[f"steps/{name}"] = rng.normal(size=_STEPS * 7).astype(np.float32)
            writer.write(record)


def _picture(rng: np.random.Generator) -> bytes:
    small = Image.fromarray(rng.integers(0, 256, (18, 32, 3), np.uint8))
    image = np.asarray(small.resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC), np.int16)
    noisy = (image + rng.integers(-6, 7, image.shape)).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(noisy).save(out, "JPEG", quality=90)
    return out.getvalue()


def _convert(path: Path, folder: Path) -> float:
    """Write the conversion, and return the seconds."""
    start = time.perf_counter()
    for number, sample in enumerate(
        tio.TFRecordDataset(path, _schema(tio.VarLenFeature("string")))
    ):
        steps = sample["steps"]
        for name in _CAMERAS:
            frames = folder / name / f"episode_{number:06}"
            frames.mkdir(parents=True)
            for step, data in enumerate(steps["observation"][name].tolist()):
                (frames / f"frame_{step:06}.jpg").write_bytes(data)
        columns = {
            "action": steps["action"].tolist(),
            "observation.state": steps["observation"]["state"].tolist(),
        }
        pq.write_table(pa.table(columns), folder / f"episode_{number:06}.parquet")
    return time.perf_counter() - start


def _tensor_of(column: Any) -> torch.Tensor:
    """Return a column of lists of 7 numbers as a Tensor."""
    return torch.tensor(column.flatten().to_numpy()).view(-1, 7)


class _Converted(Dataset[dict[str, torch.Tensor]]):
    """Samples of the conversion, by number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
        self.columns = [
            {name: _tensor_of(each[name].combine_chunks()) for name in each.column_names}
            for each in tables
        ]
        self.steps = [(e, s) for e, each in enumerate(tables) for s in range(len(each))]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        episode, step = self.steps[number]
        columns = self.columns[episode]
        later = torch.arange(step, step + _HORIZON).clamp(max=len(columns["action"]) - 1)
        sample = {
            name: torch.from_numpy(np.array(Image.open(self._frame(name, episode, step))))
            for name in _CAMERAS
        }
        sample["action"] = columns["action"][later]
        sample["state"] = columns["observation.state"][step]
        return sample

    def _frame(self, name: str, episode: int, step: int) -> Path:
        return self.folder / name / f"episode_{episode:06}" / f"frame_{step:06}.jpg"


# ---- the measurements ----


def _batches(kind: str, path: Path) -> Iterator[Any]:
    """Return shuffled batches of the episodes, or of the conversion."""
    if kind == "converted":
        return iter(DataLoader(_Converted(path), _BATCH_SIZE, shuffle=True))
    image = tio.ImageFeature(size=(_HEIGHT, _WIDTH), layout="HWC")
    episodes = tio.TFRecordDataset(
        path,
        _schema(tio.SequenceFeature(image)),
        batch_size=_BATCH_SIZE,
        shuffle=True,
        num_threads=1,
    )
    return iter(episodes.steps({"action": range(_HORIZON)}, outside="repeat"))


def _measure(kind: str, path: Path) -> dict[str, float]:
    """Return the seconds to the first batch, and frames per second and CPU-second after it."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    batches = _batches(kind, path)
    next(batches)
    first = time.perf_counter()
    cpu = time.process_time()
    frames = sum(
        _BATCH_SIZE * len(_CAMERAS) for _, _ in zip(range(_BATCHES), batches, strict=False)
    )
    return {
        "first": first - start,
        "wall": frames / (time.perf_counter() - first),
        "cpu": frames / (time.process_time() - cpu),
    }


def _disk(path: Path) -> int:
    """Return the bytes that files occupy on disk."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    warm([str(file) for file in files])
    return sum(file.stat().st_blocks * 512 for file in files)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--measure", nargs=2, help="kind and path; prints the figures as JSON")
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(_measure(args.measure[0], Path(args.measure[1]))))
        return
    data_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data_dir()) as temporary:
        rlds, converted = Path(temporary, "rlds.tfrecord"), Path(temporary, "converted")
        episodes = max(2, round(_EPISODES * args.scale))
        _write(rlds, episodes)
        converted.mkdir()
        seconds = _convert(rlds, converted)
        found: dict[str, list[dict[str, float]]] = {"new": [], "direct": [], "converted": []}
        for turn in range(args.rounds):
            cache = str(Path(temporary, f"cache{turn}"))  # empty: "new" counts steps
            paths = {"new": rlds, "direct": rlds, "converted": converted}
            for kind, path in paths.items():
                options = ("--measure", kind, str(path))
                found[kind].append(run_child("rlds_or_convert", *options, TORCHREC_IO_CACHE=cache))
        steps = episodes * _STEPS
        print(f"{episodes} episodes, {steps:,} steps, {steps * len(_CAMERAS):,} frames\n")
        rows = [
            [
                title,
                f"{_disk(path) / MB:.1f}",
                cost,
                spread([each["first"] for each in found[kind]]),
                spread([each["cpu"] for each in found[kind]], 0),
                spread([each["wall"] for each in found[kind]], 0),
            ]
            for title, kind, path, cost in (
                ("RLDS, first run", "new", rlds, "0"),
                ("RLDS, later run", "direct", rlds, "0"),
                ("Parquet and JPEG files", "converted", converted, f"{seconds:.1f}"),
            )
        ]
        headers = ["Data", "MB on disk", "Conversion, s", "First batch, s"]
        print(table([*headers, "Frames per CPU-second", "Frames/s"], rows))


if __name__ == "__main__":
    main()
