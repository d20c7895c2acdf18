"""Faults of system calls and allocations: what can be injected, and the shims that do it."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

import numpy as np

from torchrec_io import _core

_HERE = Path(__file__).parent


class Call(IntFlag):
    """Kinds of system calls, with the numbers of ``shim.c``, and allocations."""

    OPEN = 1
    READ = 2
    WRITE = 4
    SYNC = 8
    RENAME = 16
    UNLINK = 32
    MKDIR = 64
    TRUNCATE = 128
    STAT = 256
    ALLOCATION = 512


CHANGES = (
    Call.OPEN | Call.WRITE | Call.SYNC | Call.RENAME | Call.UNLINK | Call.MKDIR | Call.TRUNCATE
)
EVERYTHING = CHANGES | Call.READ | Call.STAT


class Action(IntEnum):
    """What happens to a call, with the numbers of ``shim.c``."""

    NOTHING = 0
    FAIL = 1
    KILL = 2
    SHORTEN = 3
    FAIL_AFTERWARDS = 4


@dataclass(frozen=True)
class Fault:
    """A fault that is injected at one call after another.

    Attributes:
        name: Name for messages.
        action: What happens to the call.
        calls: Kinds of calls that are counted.
        error: Error of the call.
        is_lasting: Whether all later calls fail, too.
    """

    name: str
    action: Action
    calls: Call = CHANGES
    error: int = 0
    is_lasting: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether programs must succeed: the system may do this at any time."""
        return self.action == Action.SHORTEN or self.error == errno.EINTR


KILL = Fault("killed", Action.KILL)
EIO = Fault("EIO", Action.FAIL, error=errno.EIO)
ENOSPC = Fault(
    "ENOSPC",
    Action.FAIL,
    Call.OPEN | Call.WRITE | Call.SYNC | Call.RENAME | Call.MKDIR,
    errno.ENOSPC,
)
BROKEN = Fault("EIO from then on", Action.FAIL, error=errno.EIO, is_lasting=True)
FULL = Fault("ENOSPC from then on", Action.FAIL, ENOSPC.calls, errno.ENOSPC, is_lasting=True)
# As over a network: the server did it, but its answer was lost.
LOST_ANSWER = Fault("EIO afterwards", Action.FAIL_AFTERWARDS, Call.RENAME | Call.UNLINK, errno.EIO)
SHORT_WRITE = Fault("short", Action.SHORTEN, Call.WRITE)
SHORT_WRITES = Fault("all short", Action.SHORTEN, Call.WRITE, is_lasting=True)
EINTR = Fault("EINTR", Action.FAIL, Call.OPEN | Call.READ | Call.WRITE | Call.SYNC, errno.EINTR)
EIO_READING = Fault("EIO", Action.FAIL, EVERYTHING, errno.EIO)
SHORT_READ = Fault("short", Action.SHORTEN, Call.READ)
SHORT_READS = Fault("all short", Action.SHORTEN, Call.READ, is_lasting=True)


# An allocation of the native core, by the other shim.
ALLOCATION = Fault("out of memory", Action.FAIL, Call.ALLOCATION)


def build_shims(folder: Path) -> list[Path]:
    """Compile the shims, and return the libraries to preload."""
    return [
        _build(folder, "cc", "shim.c"),
        _build(folder, "c++", "allocations.cpp", "-std=c++20"),
    ]


def _build(folder: Path, compiler: str, source: str, *options: str) -> Path:
    library = folder / f"{source}.so"
    program = shutil.which(compiler) or compiler
    flags = [*options, "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([program, *flags, "-o", library, _HERE / source, "-ldl"], check=True, timeout=60)
    return library


class Shim:
    """The preloaded shim of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        # nanobind ends the process if its tables of objects, and of objects that keep others alive,
        # cannot grow. They never shrink.
        nothing = np.zeros(0, np.int64)
        objects = [_core.ReadPlan.of_frames(nothing, nothing) for _ in range(10_000)]
        failures = _core.split_lists(_core.Records((b"invalid",) * 10_000)).failures
        del objects, failures

    def arm(self, folder: Path, fault: Fault, number: int) -> None:
        """Inject a fault at the call of the given number, from 1, on files below a folder."""
        self._library.shim_arm(
            os.fsencode(folder),
            ctypes.c_uint(fault.calls),
            ctypes.c_long(number),
            int(fault.action),
            fault.error,
            int(fault.is_lasting),
        )

    def disarm(self) -> None:
        """Let all calls pass."""
        self._library.shim_disarm()

    @property
    def hit(self) -> Call:
        """Kind of the first call that got a fault; no kind if there was none."""
        return Call(self._library.shim_fired())

    def arm_allocations(self, number: int) -> None:
        """Make the allocation of the given number in the native core fail; 0 for none."""
        self._library.allocations_arm(ctypes.c_long(number))

    def disarm_allocations(self) -> int:
        """Let all allocations pass, and return their number since they were armed."""
        return int(self._library.allocations_disarm())
