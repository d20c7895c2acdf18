"""Many files in a process that may have few of them open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.tfrecord import write_tfrecord

FILES = 100
# The process has some files of its own: libraries, pipes to workers.
LIMIT = 32

READ = """
import resource, sys
import torch
from torch.utils.data import DataLoader
import torchrec_io as tio
torch.multiprocessing.set_sharing_strategy("file_system")
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
folder = sys.argv[1]
for workers in (0, 2):
    for dataset in (
        tio.TFRecordDataset(folder, batch_size=50, shuffle=True),
        tio.TFRecordStream(folder, batch_size=50),
    ):
        found = []
        for batch in DataLoader(dataset, batch_size=None, num_workers=workers):
            found += batch
        assert sorted(found) == sorted(str(n).encode() for n in range(2 * int(sys.argv[3]))), found
del dataset
parts = [tio.TFRecordDataset(folder, shuffle=True, transform=int) for _ in range(3)]
assert len(list(tio.mix(parts, weights=[1] * 3, stop="each_once"))) == 6 * int(sys.argv[3])
del parts
dataset = tio.TFRecordMapDataset(folder)
assert len(dataset.__getitems__(range(len(dataset)))) == len(dataset)
assert tio.tools.merge(folder, folder + "/merged.bin").records == len(dataset)
"""


def test_few_files_stay_open(tmp_path: Path) -> None:
    for number in range(300):
        kind = "gzip" if number == 7 else None
        write_tfrecord(tmp_path / f"{number:03}.tfrecord", [b"%d" % number] * 2, kind)
    dataset = tio.TFRecordMapDataset(tmp_path)
    numbers = np.random.default_rng(0).permutation(600).tolist()
    before = len(os.listdir("/proc/self/fd"))
    assert dataset.__getitems__(numbers) == [b"%d" % (number // 2) for number in numbers]
    assert len(os.listdir("/proc/self/fd")) - before <= 128


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    for number in range(FILES):
        records = [str(2 * number + each).encode() for each in range(2)]
        write_tfrecord(tmp_path / f"{number:03d}.tfrecord", records)
    command = [sys.executable, "-c", READ, *map(str, (tmp_path, LIMIT, FILES))]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
