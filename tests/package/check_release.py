"""Check that the files of the repository agree on the version: ``check_release.py [TAG]``.

Run by the release workflow with the tag, and by the tests without one. It needs only Python.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find_problems(root: Path, tag: str | None) -> list[str]:
    """Return what disagrees with the version in pyproject.toml.

    Args:
        root: Root of the repository.
        tag: Tag of the release, which the changelog must have a heading for; None if there is none.
    """
    version = find(root / "pyproject.toml", r'^version = "(.+)"$')
    cited = find(root / "CITATION.cff", r"^version: (.+)$")
    problems = []
    if cited != version:
        problems.append(f"CITATION.cff has version {cited}, pyproject.toml has {version}")
    if tag is None:
        return problems
    if tag != f"v{version}":
        problems.append(f"the tag must be v{version}, got {tag}")
    if not find(root / "CHANGELOG.md", rf"^## ({re.escape(version)})(?:, \d{{4}}-\d\d-\d\d)?$"):
        problems.append(f"CHANGELOG.md has no heading '## {version}'")
    return problems


def find(path: Path, pattern: str) -> str:
    """Return the first match of a pattern in a file, or an empty string."""
    match = re.search(pattern, path.read_text("utf-8"), re.MULTILINE)
    return "" if match is None else match[1]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    found = find_problems(ROOT, arguments[0] if arguments else None)
    sys.exit("\n".join(found) or 0)
