"""The kept inputs of the fuzz targets.

A folder ``corpus/TARGET`` has ``seeds.zip``, inputs that each reach code that no other one reaches,
and ``findings``, inputs that once failed.

    python -m tests.fuzz.corpus unpack FOLDER      write the start of a fuzz run to FOLDER/TARGET
    python -m tests.fuzz.corpus pack BUILD         keep the inputs that runs in BUILD have found
"""

from __future__ import annotations

import hashlib
import importlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
# Upper limit of a seeds.zip, so that the repository stays small.
MOST_BYTES = 32 << 10
_WORD = re.compile(rb'"[A-Za-z_][\w./]{1,40}"')
_MOST_WORDS = 400
_MERGE_SECONDS = 180


def native_targets() -> list[str]:
    """Return the names of the targets in C++."""
    return _names("native/fuzz_*.cpp")


def python_targets() -> list[str]:
    """Return the names of the targets in Python."""
    return _names("python/fuzz_*.py")


def _names(pattern: str) -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob(pattern))


def findings_of(target: str) -> list[Path]:
    """Return the files of inputs that once failed."""
    return sorted((CORPUS / target / "findings").glob("*"))


def kept_inputs(target: str) -> Iterator[bytes]:
    """Yield the inputs of a target in the repository."""
    for path in findings_of(target):
        yield path.read_bytes()
    archive = CORPUS / target / "seeds.zip"
    if archive.exists():
        with zipfile.ZipFile(archive) as seeds:
            for name in seeds.namelist():
                yield seeds.read(name)


def unpack(folder: Path) -> None:
    """Write the kept inputs, the seeds of Python targets and a dictionary of words in JSON."""
    for target in native_targets() + python_targets():
        inputs = list(kept_inputs(target))
        if target in python_targets():
            inputs += importlib.import_module(f"tests.fuzz.python.fuzz_{target}").seeds()
        (folder / target).mkdir(parents=True, exist_ok=True)
        for data in inputs:
            (folder / target / _name_of(data)).write_bytes(data)
        _write_dictionary(folder / f"{target}.dict", inputs)


def _write_dictionary(path: Path, inputs: list[bytes]) -> None:
    """Write the words of JSON for libFuzzer, which refuses a file without words."""
    words = sorted({word for data in inputs for word in _WORD.findall(data)})[:_MOST_WORDS]
    lines = [b'"' + word.replace(b'"', b'\\"') + b'"\n' for word in words]
    if lines:
        path.write_bytes(b"".join(lines))


def pack(build: Path) -> None:
    """Keep the inputs of ``build/corpus`` that each reach code that no other one reaches."""
    for target in native_targets() + python_targets():
        folder = build / "corpus" / target
        with tempfile.TemporaryDirectory() as merged:
            if target in native_targets():  # atheris cannot merge; its inputs are few
                _merge(build, target, merged)
                folder = Path(merged)
            inputs = sorted((path.read_bytes() for path in folder.glob("*")), key=len)
        count = _write_archive(CORPUS / target / "seeds.zip", inputs)
        print(f"{target}: kept {count} of {len(inputs)} inputs")


def _merge(build: Path, target: str, merged: str) -> None:
    """Write the smallest set of inputs that reaches the same code to a folder."""
    program = build / "tests" / "fuzz" / "native" / f"fuzz_{target}"
    folders = [str(build / name / target) for name in ("corpus", "seeds")]
    options = ["-merge=1", f"-max_total_time={_MERGE_SECONDS}", "-rss_limit_mb=4096"]
    subprocess.run([program, *options, merged, *folders], check=True, capture_output=True)


def _write_archive(path: Path, inputs: list[bytes]) -> int:
    """Write as many inputs as fit, the short ones first, and return their number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for count, data in enumerate(inputs):
            entry = zipfile.ZipInfo(_name_of(data))  # without the time, so that bytes repeat
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
            if path.stat().st_size + 100 * (count + 1) > MOST_BYTES:
                return count + 1
    return len(inputs)


def _name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def main() -> None:
    """Run the command line."""
    commands = {"unpack": unpack, "pack": pack}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
