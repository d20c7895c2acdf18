"""Print docs/command-line.md from the help texts of the commands.

    python docs/hooks/command_line.py > docs/command-line.md

typer writes a page with every option of every command. This one says what many commands share only
once: the usage, the paths, ``--help``, and options with the same text in at least three commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

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


_EXAMPLE = """\
    torchrec-io convert photos/ out/photos --num-shards 8
    torchrec-io head out/
    torchrec-io verify out/
"""
_SHARED = """\
Install it with `pip install "torchrec-io[cli]"`.

`PATH` is a file, glob pattern, directory or URL. Commands without a usage line take one or more.
`--jobs` is by default the number of CPUs, at most 8, or 16 to index URLs. `--help` prints the text
of a command below, and `--version` the version. `--install-completion` lets the shell complete
commands; `--show-completion` prints what it would install. A terminal shortens long names in
tables; a pipe or file gets them in full, without colors. `NO_COLOR=1` turns off colors.

## Shared options

"""


def made_by_typer() -> str:
    """Return the page that typer makes."""
    run = subprocess.run(
        [sys.executable, "-m", "typer", "torchrec_io.cli.commands", "utils", "docs",
         "--name", "torchrec-io", "--title", "Command line"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


def shortened(page: str) -> str:
    """Return a page of typer without what it repeats."""
    head, *commands = re.split(r"^## ", page, flags=re.MULTILINE)
    sections = [_section(command) for command in commands]
    counts = Counter(entry for _, _, entries in sections for entry in entries)
    shared = [entry for entry, count in counts.items() if count >= _SHARED_BY]
    intro = re.sub(r"\A# .*\n\n", "", head.partition("\n**Usage**")[0])
    parts = [f"# Command line\n\n{intro.strip()}\n", _EXAMPLE, _SHARED + "\n".join(shared) + "\n"]
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


if __name__ == "__main__":
    sys.stdout.write(shortened(made_by_typer()))
