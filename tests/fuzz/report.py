"""Print the table of tests/fuzz/results.md from the logs of fuzz runs.

    python -m tests.fuzz.report LOGS

LOGS is the folder ``logs`` of one or several runs of run.sh. The runs of a target are added up.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.fuzz import corpus

HEADER = "| Target | Executions | Findings |\n| --- | ---: | ---: |"
_STATUS = re.compile(r"^#(\d+)\s.*?\bcov: ", re.MULTILINE)


def executions(folder: Path, target: str) -> int:
    """Return the number of inputs that all runs of a target have run."""
    total = 0
    for path in sorted(folder.glob("*.log")):
        if re.fullmatch(rf"{target}[-.]\d+\.log", path.name):
            found = _STATUS.findall(path.read_text("utf-8", "replace"))
            total += max(map(int, found), default=0)
    return total


def table(folder: Path) -> str:
    """Return the table of all targets in Markdown."""
    lines = [HEADER]
    total = all_findings = 0
    for target in corpus.native_targets() + corpus.python_targets():
        runs = executions(folder, target)
        total += runs
        findings = len(corpus.findings_of(target))
        lines.append(f"| `{target}` | {runs:,} | {findings:,} |")
        all_findings += findings
    lines.append(f"| all | {total:,} | {all_findings:,} |")
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(table(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
