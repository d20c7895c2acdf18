"""Print the table of docs/security.md from the logs of fuzz runs.

    python -m tests.fuzz.report LOGS

LOGS is the folder ``logs`` of one or several runs of run.sh. The runs of a target are added up.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpus

HEADER = (
    "| Target | Input | Executions | Coverage | Corpus | Findings |\n"
    "| --- | --- | ---: | ---: | ---: | ---: |"
)
_STATUS = re.compile(r"^#(\d+)\s.*?\bcov: (\d+) ft: \d+ corp: (\d+)", re.MULTILINE)


class Runs(NamedTuple):
    """All runs of a target.

    Attributes:
        executions: Number of inputs that were run.
        coverage: Largest number of edges that a run reached.
        inputs: Largest number of inputs of a corpus.
    """

    executions: int
    coverage: int
    inputs: int


def read_logs(folder: Path, target: str) -> Runs:
    """Add up the runs of a target."""
    executions = coverage = inputs = 0
    for path in sorted(folder.glob("*.log")):
        if re.fullmatch(rf"{target}[-.]\d+\.log", path.name) is None:
            continue
        found = _STATUS.findall(path.read_text("utf-8", "replace"))
        executions += max((int(count) for count, _, _ in found), default=0)
        coverage = max([coverage, *(int(edges) for _, edges, _ in found)])
        inputs = max([inputs, *(int(count) for _, _, count in found)])
    return Runs(executions, coverage, inputs)


def table(folder: Path) -> str:
    """Return the table of all targets in Markdown."""
    lines = [HEADER]
    total = all_findings = 0
    for target in corpus.native_targets() + corpus.python_targets():
        runs = read_logs(folder, target)
        total += runs.executions
        findings = len(corpus.findings_of(target))
        numbers = [f"{number:,}" for number in (*runs, findings)]
        lines.append(f"| `{target}` | {describe(target)} | {' | '.join(numbers)} |")
        all_findings += findings
    lines.append(f"| all | any | {total:,} | - | - | {all_findings:,} |")
    return "\n".join(lines)


def describe(target: str) -> str:
    """Return the first line of the text at the top of a target."""
    python = corpus.HERE / "python" / f"fuzz_{target}.py"
    if python.exists():
        text = ast.get_docstring(ast.parse(python.read_text("utf-8"))) or ""
        return text.partition("\n")[0].rstrip(".")
    native = corpus.HERE / "native" / f"fuzz_{target}.cpp"
    comment = re.match(r"(?:// .*\n)+", native.read_text("utf-8"))
    words = "" if comment is None else comment[0].replace("// ", "").replace("\n", " ")
    return re.split(r"(?<=\w)[.:;] ", words)[0].strip().rstrip(".")


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(table(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
