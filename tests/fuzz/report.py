"""Print the table of docs/security.md from the logs of fuzz runs.

    python -m tests.fuzz.report LOGS

LOGS is the folder ``logs`` of one or several runs of run.sh. The runs of a target are added up.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tests.fuzz import corpus

HEADER = "| Target | Input | Executions | Findings |\n| --- | --- | ---: | ---: |"
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
        lines.append(f"| `{target}` | {describe(target)} | {runs:,} | {findings:,} |")
        all_findings += findings
    lines.append(f"| all | any | {total:,} | {all_findings:,} |")
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
