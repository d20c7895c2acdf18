"""Add every option of every command to the page of the command line, from the help texts.

typer writes a page with every option of every command. This one says what many commands share only
once: the usage, the paths, ``--help``, and options with the same text in at least three commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import Any

PAGE = "command-line.md"
MARK = "<!-- commands -->"  # the options take the place of this line of the page
_SHARED_BY = 3  # commands
_ENTRY = re.compile(r"^\* `(?P<names>[^`]*)`: (?P<text>.*)$", re.MULTILINE)
_KINDS = {  # of typer: what this page writes instead
    r"^\* `(\w+) <.*?>`": r"* `\1`",  # an argument
    r" <(?:int|int range)>`": " N`",
    r" <float>`": " X`",
    r" <str>`": " TEXT`",
    r" {2}\[x>=\d\]": "",
    r"; x>=\d\]": "]",
    r" {2}\[default: \(?(.*?)\)?\]": r" Default: \1.",
    r" {2}\[(\d+)<=x<=(\d+)\]": r" From \1 to \2.",
    r" {2}\[required\]": " Required.",
    r"(--no-index`): .*": r"\1: Whether each output gets an index .tfidx. Default: index.",
    r"(\* `--force`): (?:Whether|Replace) .*": (
        r"\1: Replace outputs that exist. By default they are refused."
    ),
    r"(\* `-j, --jobs N`): .*": r"\1: Number of files or threads at the same time.",
    r"(\* `--json`): Print .*": r"\1: Print JSON: one object, or a line for each file or record.",
    r" If the inputs are in the same folder, .* twice\.": "",  # docs/record-files.md says so
    r"By default (that of IN)\. .*": r"Default: \1.",
}


def made_by_typer() -> str:
    """Return the page that typer makes."""
    run = subprocess.run(
        [sys.executable, "-m", "typer", "torchrec_io.cli.commands", "utils", "docs",
         "--name", "torchrec-io", "--title", "Command line"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


def shortened(page: str) -> str:
    """Return the commands on a page of typer, without what it repeats."""
    commands = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    sections = [_section(command) for command in commands]
    counts = Counter(entry for _, _, entries in sections for entry in entries)
    shared = [entry for entry, count in counts.items() if count >= _SHARED_BY]
    intro = "Commands without a usage line take one or more paths.\n\n## Shared options\n\n"
    parts = [intro + "\n".join(shared) + "\n"]
    for title, text, entries in sections:
        own = [entry for entry in entries if entry not in shared]
        common = [f"`{_long(entry)}`" for entry in entries if entry in shared]
        shown = [text, *(["\n".join(own)] if own else [])]
        if common:
            shown.append(f"Also: {', '.join(common)}")
        parts.append(f"## {title}\n\n" + "\n\n".join(shown) + "\n")
    return "\n".join(parts)


def _section(command: str) -> tuple[str, str, list[str]]:
    """Return the title, the text and the entries of a command, without ``--help``."""
    title, _, body = command.partition("\n\n")
    text, _, rest = body.partition("**Usage**:")
    arguments = re.findall(r"\$ torchrec-io \w+ \[OPTIONS\] (.*)", rest)[0]
    usage = f"{title.strip('`')} [OPTIONS] {re.sub(r'[{}]', '', arguments)}"
    entries = [_written(entry[0]) for entry in _ENTRY.finditer(rest)]
    kept = [entry for entry in entries if not entry.startswith(("* `--help`", "* `PATH`"))]
    shown = "" if arguments == "{PATH}..." else f"    {usage}\n\n"
    return title, shown + text.strip(), kept


def _written(entry: str) -> str:
    for pattern, words in _KINDS.items():
        entry = re.sub(pattern, words, entry)
    return entry


def _long(entry: str) -> str:
    """Return the long name of the option of an entry."""
    return str(re.findall(r"--[\w-]+", entry)[0])


def on_page_markdown(markdown: str, /, *, page: Any, **_: Any) -> str:
    """Put the options on the page."""
    if page.file.src_uri != PAGE:
        return markdown
    assert MARK in markdown
    return markdown.replace(MARK, shortened(made_by_typer()))
