"""For peers that read no TFRecord files: the same samples, copied once into their own format."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from benchmarks.peers.records import Sample, decoder
from benchmarks.workloads import Workload


def folder_of(workload: Workload, peer: str) -> str:
    """Where a peer's copy is."""
    return str(workload.folder / peer)


def copy_once(folder: str, write: Callable[[str], None]) -> None:
    """Lets a copy be written into a folder that gets its name when it is complete."""
    if os.path.exists(folder):
        return
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    write(part)
    os.rename(part, folder)


def records_of(workload: Workload, file: str) -> Iterator[bytes]:
    """The serialized records of a file."""
    opener = cast("Callable[[str, str], BinaryIO]", gzip.open if workload.compression else open)
    with opener(file, "rb") as stream:
        while header := stream.read(12):
            (length,) = struct.unpack("<Q", header[:8])
            yield stream.read(length)
            stream.read(4)


def samples_of(workload: Workload, file: str) -> Iterator[Sample]:
    """The samples of a file; images as JPEG bytes."""
    return map(decoder(workload, finished=False), records_of(workload, file))
