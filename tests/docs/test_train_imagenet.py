"""examples/train_imagenet.py trains, resumes exactly, and divides images between processes.

The images are those of imagenet_files.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import skip_or_fail
from tests.support import imagenet
from tests.support.imagenet import Recorder, Step, load_example

TRAINING, VALIDATION, BATCH = 96, 22, 16
EPOCH = TRAINING // BATCH  # steps

Train = Callable[..., list[Step]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images that the example has made."""
    if importlib.util.find_spec("sklearn") is None:
        skip_or_fail("scikit-learn is not installed")
    folder = tmp_path_factory.mktemp("imagenet") / "data"
    imagenet.make_files(folder, TRAINING, VALIDATION)
    return folder


@pytest.fixture
def train(data: Path, tmp_path: Path) -> Iterator[Train]:
    """Runs the example in this process; returns the images of its steps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of several threads may differ in the last bit

    def run(*options: str, checkpoint: str = "state.pt", ends: Any = None, **stop: int) -> Any:
        example = load_example()
        recorder = Recorder(example, **stop)
        arguments = [*arguments_of(data, tmp_path / checkpoint), *options]
        if ends is None:
            example.main(arguments)
        else:
            with ends:
                example.main(arguments)
        return recorder.steps

    yield run
    torch.set_num_threads(threads)


def arguments_of(data: Path, checkpoint: Path) -> list[str]:
    paths = ["--data", str(data), "--checkpoint", str(checkpoint)]
    return [*paths, "--batch-size", str(BATCH), "--size", "32", "--epochs", "2"]


def weights(path: Path) -> dict[str, torch.Tensor]:
    content: dict[str, dict[str, torch.Tensor]] = torch.load(path)
    return content["model"]


def images_of(steps: list[Step]) -> list[str]:
    return [image for step in steps for image in step]


@pytest.mark.slow
def test_progress_and_accuracy_are_printed(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    train("--epochs", "8")
    lines = capsys.readouterr().out.splitlines()
    progress = r"epoch  1/8  step    2/6  loss \d\.\d{3}  +[\d,]+ images/s  waited +\d+%"
    assert re.fullmatch(progress, lines[0])
    accuracy = re.fullmatch(r"epoch  8/8  validation accuracy (\d\.\d{3})", lines[-2])
    assert accuracy is not None, lines
    assert float(accuracy[1]) > 0.5  # of 8 classes
    assert re.fullmatch(r"the training loop waits \d+ % .*; decoding images takes .*", lines[-1])


def test_each_epoch_has_each_image_once_with_another_crop(train: Train) -> None:
    steps = train()
    assert len(steps) == 2 * EPOCH
    assert len(set(images_of(steps))) == 2 * TRAINING


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "saved"),
    [
        ({"interrupt": 3}, 4),  # reported, and so noticed, after 4 steps
        ({"interrupt": EPOCH}, EPOCH),
        ({"interrupt": EPOCH + 1}, EPOCH + 2),
        ({"crash": EPOCH + 6}, EPOCH + 3),  # saved every 3 steps
    ],
)
def test_resumed_run_equals_uninterrupted_one(
    stop: dict[str, int], saved: int, train: Train, tmp_path: Path
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    whole = train(checkpoint="whole.pt")
    reason = "power failed" if "crash" in stop else f"stopped after step {saved}; add --resume "
    ends = pytest.raises((OSError, SystemExit), match=f"^{reason}")
    first = train(ends=ends, **stop)
    rest = train("--resume")
    assert first[:saved] + rest == whole
    expected, resumed = weights(tmp_path / "whole.pt"), weights(tmp_path / "state.pt")
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
    assert signal.getsignal(signal.SIGINT) is handler


def test_resume_needs_a_checkpoint(train: Train) -> None:
    ends = pytest.raises(SystemExit, match=r"no checkpoint .*state\.pt: start without --resume$")
    assert train("--resume", ends=ends) == []


def test_only_missing_files_are_made(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in data.iterdir()}
    for path in data.glob("validation-*"):
        path.unlink()
    imagenet.make_files(data, TRAINING, VALIDATION)
    assert capsys.readouterr().out == f"{data}: validation files of {VALIDATION} images\n"
    changed = {path.name for path in data.iterdir() if path.stat().st_mtime_ns != before[path]}
    assert changed == {"validation-00000-of-00001", "validation-00000-of-00001.tfidx"}


def train_on_two_ranks(data: Path, folder: Path, stop: int, *options: str) -> list[list[Step]]:
    """Run the example with torchrun, and return the steps of each rank; 0 does not stop it."""
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",
        "--nproc-per-node=2",
    ]
    seen = folder / "seen"
    arguments = [*arguments_of(data, folder / "state.pt"), *options]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *torchrun, imagenet.__file__, seen, str(stop), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.returncode == 0) == (stop == 0), done.stderr
    return [json.loads(Path(f"{seen}-{rank}").read_text("utf-8")) for rank in range(2)]


@pytest.mark.slow
def test_ranks_train_on_each_image_once_and_stop_together(
    data: Path, train: Train, tmp_path: Path
) -> None:
    alone = train()
    saved = EPOCH + 2
    first = train_on_two_ranks(data, tmp_path, EPOCH + 1)  # only the last rank gets the signal
    assert [len(steps) for steps in first] == [saved, saved]
    shutil.copy(tmp_path / "state.pt", tmp_path / "continued-alone.pt")
    rest = train_on_two_ranks(data, tmp_path, 0, "--resume")
    ranks = [before + after for before, after in zip(first, rest, strict=True)]
    # The steps of two ranks have the images of the steps of one process, half of them each.
    for expected, *parts in zip(alone, *ranks, strict=True):
        assert [len(part) for part in parts] == [BATCH // 2, BATCH // 2]
        assert sorted(images_of(parts)) == sorted(expected)
    assert train("--resume", checkpoint="continued-alone.pt") == alone[saved:]
