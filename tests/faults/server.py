"""A process with the shim that runs programs under faults, each in a forked child.

It reads requests from its standard input, a line of JSON each: the name of a program, faults, and
the distance between calls that get one. It answers with a line of JSON: the number of cases, and a
text for each that was wrong.

A fork for each case takes milliseconds; to start an interpreter and import torch takes seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet  # noqa: F401  # imported before the forks
import torch  # noqa: F401

import torchrec_io as tio
import torchrec_io.cli.commands
from tests.faults import injection
from tests.faults.injection import Action, Call, Fault, Shim
from tests.faults.programs import PROGRAMS, Program, read_tree

_SECONDS = 60


class Outcome(NamedTuple):
    """How a child ended.

    Attributes:
        kind: ``"done"``, ``"error"`` for an error that programs may raise, ``"missing"`` for a
            FileNotFoundError, ``"killed"``, or ``"crashed"`` for everything else.
        value: Result of the function, as JSON.
        message: Text of the error.
        hit: Kind of the call that got a fault.
    """

    kind: str
    value: Any
    message: str
    hit: Call

    @property
    def is_untouched(self) -> bool:
        """Whether the child came to its end without a fault."""
        return self.kind not in ("killed", "crashed") and not self.hit


class Case:
    """The folder of one case, which is always the same, and its children."""

    def __init__(self, root: Path, program: Program) -> None:
        self.folder = root / "case"
        self._template = root / "template"
        self._program = program
        self._shim = Shim()
        shutil.rmtree(self._template, ignore_errors=True)
        self.reset()  # the template does not exist yet
        done = self.child(lambda: program.prepare(self.folder))
        assert done.kind == "done", done
        # A prepared cache would hide what the program does.
        shutil.rmtree(self.folder / "cache")
        (self.folder / "cache").mkdir()
        shutil.move(self.folder, self._template)

    def reset(self) -> None:
        """Start again from what was prepared."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._template.exists():
            shutil.copytree(self._template, self.folder)
        else:
            for name in ("out", "cache"):
                (self.folder / name).mkdir(parents=True)

    def run(self, fault: Fault | None = None, number: int = 0) -> Outcome:
        """Run the program."""
        return self.child(lambda: self._program.run(self.folder), fault, number)

    def read(self, fault: Fault | None = None, number: int = 0) -> Outcome:
        """Read the outputs in a new process."""
        return self.child(lambda: self._program.read(self.folder), fault, number)

    def left(self) -> list[str]:
        """Return the hidden files."""
        return [str(path) for path in self.folder.rglob(".*")]

    def child(
        self, function: Callable[[], Any], fault: Fault | None = None, number: int = 0
    ) -> Outcome:
        """Run a function in a child, with a fault at its call of the given number."""
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            os.close(read_end)
            os.dup2(2, 1)  # the answers go to the standard output
            signal.alarm(_SECONDS)
            if fault is not None:
                self._shim.arm(self.folder / self._program.under, fault, number)
            outcome = _call(function)
            self._shim.disarm()
            outcome = outcome._replace(hit=self._shim.hit)
            with os.fdopen(write_end, "w") as file:
                json.dump(outcome, file, default=_as_json)
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as file:
            text = file.read()
        status = os.waitpid(child, 0)[1]
        if text:
            kind, value, message, hit = json.loads(text)
            return Outcome(kind, value, message, Call(hit))
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return Outcome("killed" if is_killed else "crashed", None, f"wait status {status}", Call(0))

    def run_without_memory(self, number: int) -> Outcome:
        """Run the program here, without memory for the allocation of a number; 0 for none."""
        self.reset()
        self._shim.arm_allocations(number)
        outcome = _call(lambda: self._program.run(self.folder))
        is_hit = self._shim.disarm_allocations() >= number > 0
        return outcome._replace(hit=Call.ALLOCATION if is_hit else Call(0))


def _call(function: Callable[[], Any]) -> Outcome:
    none = Call(0)
    try:
        return Outcome("done", function(), "", none)
    except FileNotFoundError as error:
        return Outcome("missing", None, str(error), none)
    except (OSError, MemoryError, tio.TorchRecIOError) as error:
        return Outcome("error", None, f"{type(error).__name__}: {error}", none)
    except BaseException:  # noqa: BLE001  # everything else is a mistake
        return Outcome("crashed", None, traceback.format_exc(), none)


def _as_json(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """Return a value as it is after a child has sent it."""
    return json.loads(json.dumps(value, default=_as_json))


class Matrix:
    """All cases of one program, or every n-th one, where ``step`` is n."""

    def __init__(self, root: Path, program: Program, step: int) -> None:
        self._case = Case(root, program)
        self._program = program
        self._step = step
        self.cases = 0
        self.wrong: list[str] = []
        self._case.reset()
        self._old = self._case.read()
        done = self._case.run()
        assert done.kind == "done", done
        self._result = done.value
        self._new = self._case.read()
        assert self._new.kind == "done", self._new
        assert self._old.kind in ("done", "missing", "error"), self._old
        is_set = isinstance(self._new.value, dict) and len(self._new.value) > 1
        self._has_several = is_set and program.read is not read_tree  # which is one folder

    def check(self, fault: Fault) -> None:
        """Inject a fault at one call after another, until there are no more."""
        for number in count(1, self._step):
            self._case.reset()
            outcome = self._case.run(fault, number)
            if outcome.is_untouched:
                break
            self.cases += 1
            where = f"{fault.name} at call {number} ({outcome.hit.name})"
            for problem in self._problems(fault, outcome):
                self.wrong.append(f"{where}: {problem}")

    def check_allocations(self) -> None:
        """Make one allocation after another fail, in a process that continues after each."""
        most_crashes = 10
        last = RawValue(ctypes.c_long, 0)  # shared with the child
        for _ in range(most_crashes):
            outcome = self._case.child(lambda: self._fail_allocations(last))
            if outcome.kind == "done":
                self.wrong += outcome.value
                break
            self.wrong.append(f"out of memory at allocation {last.value}: {outcome.message}")
        self.cases += last.value // self._step

    def _fail_allocations(self, last: ctypes.c_long) -> list[str]:
        """Make the allocations after the last one fail, and return what is wrong."""
        wrong: list[str] = []
        while True:
            last.value += self._step
            signal.alarm(_SECONDS)
            outcome = self._case.run_without_memory(last.value)
            if not outcome.hit:
                return wrong
            where = f"out of memory at allocation {last.value}"
            wrong += [f"{where}: {problem}" for problem in self._problems_without_memory(outcome)]

    def _problems_without_memory(self, outcome: Outcome) -> Iterator[str]:
        is_done = outcome.kind == "done"
        if is_done and _plain(outcome.value) != self._result:
            yield f"the result is {outcome.value}, not {self._result}"
        if not is_done and not outcome.message.startswith("MemoryError"):
            yield outcome.message
        if left := self._case.left():
            yield f"{left} is left"
        found = _call(lambda: _plain(self._program.read(self._case.folder)))
        if found[:2] != self._new[:2] and (is_done or found[:2] != self._old[:2]):
            yield f"neither old nor new: {found}"
        again = self._case.run_without_memory(0)
        if again.kind != "done" or _plain(again.value) != self._result:
            yield f"the result afterwards is {again}, not {self._result}"

    def _problems(self, fault: Fault, outcome: Outcome) -> Iterator[str]:
        if outcome.kind == "crashed":
            yield outcome.message
        if outcome.kind == "done" and outcome.value != self._result:
            yield f"the result is {outcome.value}, not {self._result}"
        if fault.is_harmless and outcome.kind != "done":
            yield f"it failed: {outcome.message}"
        if (
            outcome.kind == "done"
            and outcome.hit in (Call.SYNC, Call.RENAME, Call.WRITE)
            and not fault.is_harmless
            and fault.action != Action.FAIL_AFTERWARDS
            and self._program.under != "cache"
        ):
            yield "no error was raised"
        yield from self._problems_of_leftovers(fault, outcome)
        yield from self._problems_of_output(outcome)

    def _problems_of_leftovers(self, fault: Fault, outcome: Outcome) -> Iterator[str]:
        left = self._case.left()
        if outcome.kind == "killed" or fault.is_lasting or outcome.hit == Call.UNLINK:
            return
        if outcome.hit == Call.OPEN:  # to remove a folder, it is opened
            left = [path for path in left if not os.path.isdir(path)]
        if left:
            yield f"{left} is left after: {outcome.message}"

    def _problems_of_output(self, outcome: Outcome) -> Iterator[str]:
        found = self._case.read()
        if found[:2] == self._new[:2]:
            return
        if outcome.kind != "done" and found[:2] == self._old[:2]:
            return
        # Old files are removed before new ones are renamed, so there may be too few of either.
        is_part = self._has_several and (
            found.kind == "missing"
            or any(
                found.kind == whole.kind == "done" and found.value.items() <= whole.value.items()
                for whole in (self._old, self._new)
            )
        )
        if outcome.kind == "done" or not is_part:
            yield f"neither old nor new: {found}"


def main() -> None:
    root = Path(sys.argv[1])
    os.environ["TORCHREC_IO_CACHE"] = str(root / "case" / "cache")
    os.environ["OMP_NUM_THREADS"] = "1"
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = _check(root, PROGRAMS[request["program"]], request["faults"], request["step"])
        except Exception:  # noqa: BLE001  # the next program is another one
            answer = (0, [traceback.format_exc()])
        print(json.dumps(answer), flush=True)


def _check(root: Path, program: Program, faults: list[str], step: int) -> tuple[int, list[str]]:
    matrix = Matrix(root, program, step)
    for name in faults:
        fault = getattr(injection, name)
        if fault == injection.ALLOCATION:
            matrix.check_allocations()
        else:
            matrix.check(fault)
    return matrix.cases, matrix.wrong


if __name__ == "__main__":
    main()
