"""Copies of the samples in the formats of peers that do not read TFRecord files."""

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
    """Return the folder of a peer's copy."""
    return str(workload.folder / peer)


def copy_once(folder: str, write: Callable[[str], None]) -> None:
    """Write a copy into a folder that is renamed to its final name when it is complete."""
    if os.path.exists(folder):
        return
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    write(part)
    os.rename(part, folder)


def records_of(workload: Workload, file: str) -> Iterator[bytes]:
    """Yield the serialized records of a file."""
    opener = cast("Callable[[str, str], BinaryIO]", gzip.open if workload.compression else open)
    with opener(file, "rb") as stream:
        while header := stream.read(12):
            (length,) = struct.unpack("<Q", header[:8])
            yield stream.read(length)
            stream.read(4)


def samples_of(workload: Workload, file: str) -> Iterator[Sample]:
    """Yield the samples of a file, with images as JPEG bytes."""
    return map(decoder(workload, finished=False), records_of(workload, file))
