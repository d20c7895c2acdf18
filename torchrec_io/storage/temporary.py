"""Names of temporary files, which tell whether the process that made them still lives."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from .digest import digest_text
from .local import StrPath

# Digits of the machine, the process and a random number, in hexadecimal.
_NAME = re.compile(r"\.(?P<start>.*)-(?P<machine>[0-9a-f]{8})(?P<process>[0-9a-f]{8})[0-9a-f]{8}")
_JOB = re.compile(r"(?P<folder>\.(?P<start>.*)-parts-[0-9a-f]{32})(?:\.lock)?")
_MAX_START = 50

OwnerState: TypeAlias = Literal["alive", "dead", "elsewhere"]


class Owner(NamedTuple):
    """The process that made a file.

    Attributes:
        machine: Digest of the machine, its start, and the process namespace.
        process: Number of the process.
    """

    machine: str
    process: int

    @property
    def state(self) -> OwnerState:
        """State of the process: "alive", "dead", or "elsewhere" if it is on another machine."""
        if self.machine != _machine():
            return "elsewhere"
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return "dead"
        except (PermissionError, OverflowError):
            pass  # a process of another user
        return "alive"


def this_process() -> Owner:
    """Return this process as the owner of files."""
    return Owner(_machine(), os.getpid())


def temporary_name(path: StrPath) -> str:
    """Return a new name ``.NAME-xxxxxxxxxxxxxxxxxxxxxxxx`` in the folder of a path.

    Patterns and directory listings skip names that start with a dot.
    """
    folder, name = os.path.split(path)
    machine, process = this_process()
    token = f"{machine}{process & 0xFFFFFFFF:08x}{os.urandom(4).hex()}"
    return os.path.join(folder, f".{name[:_MAX_START]}-{token}")


def owner_of(name: str) -> Owner | None:
    """Return the owner of a file by its name. None if it is not a temporary name."""
    found = _NAME.fullmatch(name)
    return None if found is None else Owner(found["machine"], int(found["process"], 16))


def is_temporary_for(name: str, start: str) -> bool:
    """Return whether a name is a temporary one of a file whose name starts in a given way."""
    found = _NAME.fullmatch(name)
    return found is not None and found["start"].startswith(start[:_MAX_START])


def job_folder(path: StrPath, digest: str) -> str:
    """Return the name ``.NAME-parts-DIGEST``, beside an output, of the folder of a job.

    Args:
        path: Path of the output, or common start of the paths of the shards.
        digest: Digest of 16 bytes of everything that makes the job another one.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:_MAX_START]}-parts-{digest}")


def job_lock(folder: str) -> str:
    """Return the name of the file that is locked while a job uses its folder."""
    return f"{folder}.lock"


def find_job_folder(name: str, start: str) -> str | None:
    """Return the folder of a job that writes outputs whose names start in a given way.

    Args:
        name: Name of the folder or of its lock, or any other.
        start: Start of the names of the outputs.

    Returns:
        Name of the folder, which may not exist; None if the name is another.
    """
    found = _JOB.fullmatch(name)
    if found is None or not found["start"].startswith(start[:_MAX_START]):
        return None
    return found["folder"]


def make_temporary_folder(path: StrPath) -> str:
    """Create a folder with a temporary name beside a path, and return that name."""
    while True:
        name = temporary_name(path)
        try:
            os.mkdir(name)
        except FileExistsError:  # made by another process
            continue
        return name


@functools.cache
def _machine() -> str:
    facts = [platform.node()]
    for path, read in (
        # A process number is used again after a restart, and in another container.
        ("/proc/sys/kernel/random/boot_id", Path.read_text),
        ("/proc/self/ns/pid", os.readlink),
    ):
        try:
            facts.append(read(Path(path)))
        except OSError:
            facts.append("")  # not Linux
    return digest_text("\0".join(facts), size=4)
