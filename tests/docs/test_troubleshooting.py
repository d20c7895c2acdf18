"""Messages in docs/troubleshooting.md match the package, and none about files is missing."""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, default_collate

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.datasets import SCHEMA, write_files
from tests.support.pages import PACKAGE, texts_of_package
from torchrec_io import errors
from torchrec_io._records import formats

INT32 = tio.FixedLenFeature([], "int32")
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
ROWS = [
    line.split(" | ")[0]
    for line in TEXT.partition("## Without a message")[0].splitlines()
    if line.startswith("| `")
]
# Classes of which the page has every reason. Those of schemas and values are too many: what it
# leaves out says as much by itself.
COMPLETE = ("CorruptRecordError", "IndexFormatError", "StaleIndexError", "TruncatedFileError")


def parts_of(row: str) -> tuple[str, list[str]]:
    """The class of an error, and what of its message is in each case the same."""
    [error, *parts] = re.findall(r"`(.+?)`", row)
    return error, parts


def test_messages_are_those_of_the_package() -> None:
    assert len(ROWS) > 100
    texts = texts_of_package()
    for row in ROWS:
        error, parts = parts_of(row)
        assert re.fullmatch(r"[A-Z]\w+(Error|Warning)", error), row
        assert parts, row
        if "(PyTorch's)" in row:
            continue
        for part in parts:
            assert any(part in text for text in texts), part


def test_every_class_is_there() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, tio.TorchRecIOError)
    }
    assert classes - {"TorchRecIOError"} == {
        error for error, _ in map(parts_of, ROWS) if error in classes
    }


@pytest.mark.parametrize("error", COMPLETE)
def test_every_reason_is_there(error: str) -> None:
    parts = [part for row in ROWS if row.startswith(f"| `{error}`") for part in parts_of(row)[1]]
    reasons = list(reasons_of(error))
    assert len(reasons) >= 2
    for reason in reasons:
        assert any(part in reason for part in parts), (
            f"docs/troubleshooting.md does not have {reason!r} of a {error}"
        )


def test_messages_of_pytorch(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [9])
    quoted = [parts_of(row) for row in ROWS if "(PyTorch's)" in row]
    batch = next(iter(tio.TFRecordDataset(paths, {**SCHEMA, "id": INT32}, batch_size=4)))
    dicts = [dict(sample) for sample in batch.samples()]

    def shuffled() -> None:
        DataLoader(tio.TFRecordDataset(paths, SCHEMA), batch_size=4, shuffle=True)

    attempts: list[Callable[[], object]] = [
        lambda: default_collate(dicts),
        lambda: torch.save(dict(batch), io.BytesIO()),
        shuffled,
    ]
    assert len(quoted) == len(attempts)
    for (error, [message]), attempt in zip(quoted, attempts, strict=True):
        with pytest.raises(
            (TypeError, RuntimeError, ValueError), match=re.escape(message)
        ) as raised:
            attempt()
        assert raised.type.__name__ == error
    torch.save([batch, *batch.samples()], io.BytesIO())


def reasons_of(error: str) -> Iterator[str]:
    """Reasons that the package's Python raises an error with, as far as they are written there."""
    yield from (reason for kind, reason in formats._FAULTS.values() if kind.__name__ == error)
    for call in calls_of_names():
        assert isinstance(call.func, ast.Name)
        if call.func.id == error and call.args:
            yield from longest_text(call.args[0])


@functools.cache
def calls_of_names() -> list[ast.Call]:
    return [
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def longest_text(reason: ast.expr) -> list[str]:
    """What is written of a message, with gaps where values go; nothing if it is from elsewhere."""
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [reason.value]
    if isinstance(reason, ast.JoinedStr):
        parts = [part.value for part in reason.values if isinstance(part, ast.Constant)]
        return ["\0".join(map(str, parts))]
    return []
