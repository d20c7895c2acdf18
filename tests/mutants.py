"""Small changes of the core that the tests must notice.

``python -m tests.mutants`` changes one place of the core after another, in Python and C++, and runs
the tests of its room and the contract matrix. It prints each change with the test that noticed it.
The changes that none did are at the end: a test is missing, or the change makes no difference.

The checkout must have no changes of its own. Each file is put back after its tests.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CORE = ROOT / "torchrec_io"

# Tests of each room, and of each part of the native core.
TESTS = {
    "_storage": ["storage"],
    "_records": ["records"],
    "_order": ["order", "datasets"],
    "_schema": ["schema"],
    "_images": ["images"],
    "_parsing": ["parsing"],
    "_tensors": ["tensors"],
    "_writing": ["writing"],
    "_datasets": ["datasets"],
    "_loading": ["loading"],
    "_core/deflate": ["storage"],
    "_core/example": ["parsing", "writing"],
    "_core/image": ["images"],
    "_core/jpeg": ["images"],
    "_core/memory": ["tensors"],
    "_core/order": ["order", "datasets"],
    "_core/packing": ["datasets"],
    "_core/png": ["images"],
    "_core/records": ["records"],
    "_core/rows": ["tensors"],
    "_core/wire": ["parsing", "records"],
}
# Tests of a change that take longer than this have noticed it: it is usually an endless loop.
_SECONDS = 900

_OTHER_OPERATOR: dict[type[ast.AST], ast.AST] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.FloorDiv(),
    ast.And: ast.Or(),
    ast.Or: ast.And(),
}
_OTHER_TOKEN = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "&&": "||",
    "||": "&&",
    "true": "false",
    "false": "true",
}
# An operator between spaces is not part of a template or a pointer.
_TOKEN = re.compile(r"(?<= )(<=?|>=?|==|!=|\+|-|&&|\|\|)(?= )|\b(true|false)\b")


class Mutant(NamedTuple):
    """A file with one change.

    Attributes:
        path: The file.
        line: Line of the change, from 1.
        before: The changed text.
        after: The text in its place.
        content: The whole file with the change.
    """

    path: Path
    line: int
    before: str
    after: str
    content: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before} -> {self.after}"


def python_mutants(path: Path) -> Iterator[Mutant]:
    """Yield a Python file with each change of an operator or a number."""
    text = path.read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _expressions(ast.parse(text)):
        before = ast.get_source_segment(text, node)
        after = _changed(node)
        if after is None or before is None or node.end_lineno is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = begin + len(before.encode())
        content = (text.encode()[:begin] + after.encode() + text.encode()[end:]).decode()
        shown = " ".join(before.split())
        yield Mutant(path, node.lineno, shown, " ".join(after.split()), content)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of functions and classes, without annotations.

    The constants of a file are left out: most of them change the speed alone.
    """
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.Module) and isinstance(child, ast.Assign):
                continue
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def _changed(node: ast.expr) -> str | None:
    """Return another expression in place of one; None if it has nothing to change."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = _OTHER_OPERATOR[type(node.ops[0])]
        changed: ast.expr = ast.Compare(node.left, [other], node.comparators)  # type: ignore[list-item]
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _OTHER_OPERATOR:
        other = _OTHER_OPERATOR[type(node.op)]
        fields = {**dict(ast.iter_fields(node)), "op": other}
        changed = type(node)(**fields)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        changed = node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        changed = ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        changed = ast.Constant(node.value + 1)
    else:
        return None
    return f"({ast.unparse(changed)})"


def native_mutants(path: Path) -> Iterator[Mutant]:
    """Yield a C++ file with each change of an operator or a bool."""
    text = path.read_text()
    for found in _TOKEN.finditer(text):
        begin, end = found.span()
        line_begin = text.rfind("\n", 0, begin) + 1
        head = text[line_begin:begin]
        if "//" in head or head.lstrip().startswith(("#", "template", "*", "static_assert")):
            continue
        after = _OTHER_TOKEN[found[0]]
        line = text[line_begin : text.find("\n", end)]
        shown = line[: begin - line_begin] + after + line[end - line_begin :]
        content = text[:begin] + after + text[end:]
        number = text.count("\n", 0, begin) + 1
        yield Mutant(path, number, line.strip(), shown.strip(), content)


def tests_of(path: Path) -> list[str]:
    """Return the folders with the tests of a file of the core; none for other files."""
    name = path.relative_to(CORE).as_posix()
    rooms = [room for room in TESTS if name.startswith(f"{room}/")]
    return [f"tests/{each}" for each in TESTS[rooms[0]]] if rooms else []


def draw(count: int, seed: int, only: str) -> Iterator[Mutant]:
    """Yield changes at random places: every third one in C++, each line equally likely."""
    rng = random.Random(seed)
    files = [path for path in sorted(CORE.rglob("*")) if path.suffix in {".py", ".cpp", ".h"}]
    files = [path for path in files if path.is_file() and tests_of(path)]
    files = [path for path in files if path.relative_to(ROOT).as_posix().startswith(only)]
    python = [each for path in files if path.suffix == ".py" for each in python_mutants(path)]
    native = [each for path in files if path.suffix != ".py" for each in native_mutants(path)]
    for number in range(count):
        kind = native if native and (number % 3 == 2 or not python) else python
        yield kind.pop(rng.randrange(len(kind)))


def noticed_by(mutant: Mutant) -> str | None:
    """Return what notices a change; None if nothing does."""
    original = mutant.path.read_text()
    mutant.path.write_text(mutant.content)
    try:
        if mutant.path.suffix != ".py" and not _build():
            return "the compiler"
        return _failing_test([*tests_of(mutant.path), "tests/contract"])
    finally:
        mutant.path.write_text(original)
        if mutant.path.suffix != ".py":
            _build()


def _build() -> bool:
    command = "import importlib.util as u; u.find_spec('torchrec_io._core').loader.rebuild()"
    return _run([sys.executable, "-c", command]).returncode == 0


def _failing_test(folders: list[str]) -> str | None:
    """Run tests, and return the first one that fails, or another reason; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", str((os.cpu_count() or 1) + 1)]
    command += ["--dist", "worksteal", "-m", "not long", *folders]
    try:
        done = _run(command)
    except subprocess.TimeoutExpired:
        return "the time limit"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else "pytest"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def main() -> int:
    """Run the tests for each change; return 1 if fewer than 90 % were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="torchrec_io/", help="beginning of the files' names")
    given = parser.parse_args()
    if _run(["git", "diff", "--quiet"]).returncode:
        parser.error("the checkout has changes: commit them first")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which puts the file back
    survivors = []
    for number, mutant in enumerate(draw(given.count, given.seed, given.only), 1):
        found = noticed_by(mutant)
        print(f"{number}. {mutant}\n   {found or 'NOT NOTICED'}", flush=True)
        if found is None:
            survivors.append(mutant)
    noticed = given.count - len(survivors)
    print(f"{noticed} of {given.count} changes were noticed; not these:")
    print("\n".join(map(str, survivors)))
    return int(noticed < 0.9 * given.count)


if __name__ == "__main__":
    sys.exit(main())
