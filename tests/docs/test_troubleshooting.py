"""Messages in docs/troubleshooting.md are those of the package, and the site has all of them."""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, default_collate

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.datasets import SCHEMA, write_files
from tests.support.pages import PACKAGE, hook, texts_of_package
from torchrec_io import errors
from torchrec_io._records import formats

INT32 = tio.FixedLenFeature([], "int32")
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
ROWS = [
    line.split(" | ")[0]
    for line in TEXT.partition("## Without a message")[0].splitlines()
    if line.startswith("| `")
]
CLASSES = sorted(
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, tio.TorchRecIOError)
)


@pytest.fixture(scope="module")
def messages() -> Any:
    """The hook of the site that makes the table of all messages."""
    return hook("messages")


@pytest.fixture(scope="module")
def table(messages: Any) -> dict[str, list[str]]:
    """The texts of the table by class."""
    texts: dict[str, list[str]] = {}
    for message in messages.messages():
        texts.setdefault(message.error, []).append(message.text)
    return texts


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


@pytest.mark.parametrize("error", [name for name in CLASSES if name != "TorchRecIOError"])
def test_table_has_every_message_of_a_class(error: str, table: dict[str, list[str]]) -> None:
    shown = [words_of(text) for text in table[error]]
    for reason in reasons_of(error):
        wanted = words_of(reason)
        if len(wanted) > 2:
            assert any(is_in_order(wanted, words) for words in shown), reason


def test_table_has_the_messages_of_the_page(table: dict[str, list[str]]) -> None:
    shown = [words_of(text) for texts in table.values() for text in texts]
    for row in ROWS:
        for part in () if "(PyTorch's)" in row else parts_of(row)[1]:
            assert any(is_in_order(words_of(part), words) for words in shown), part


def test_table_has_messages_that_are_raised(tmp_path: Path, table: dict[str, list[str]]) -> None:
    paths = write_files(tmp_path, [9])
    text = tmp_path / "text.tfrecord"
    text.write_text("<html>not found</html>" * 9)
    cut = tmp_path / "cut.tfrecord"
    cut.write_bytes(Path(paths[0]).read_bytes()[:-3])
    index = tmp_path / "damaged.tfidx"
    index.write_bytes(b"x" * 200)
    missing = {"missing": tio.FixedLenFeature([], "int64")}
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("FileNotFoundError", lambda: tio.TFRecordDataset(str(tmp_path / "none-*"), SCHEMA)),
        ("CorruptRecordError", lambda: tio.TFRecordDataset(text, SCHEMA)),
        ("TruncatedFileError", lambda: tio.TFRecordDataset(cut, SCHEMA)),
        ("IndexFormatError", lambda: tio.RecordIndex.load(index)),
        ("ValueError", lambda: tio.TFRecordDataset(paths, SCHEMA, batch_size=0)),
        ("ValueError", lambda: tio.TFRecordDataset(paths, SCHEMA, shuffle=-1)),
        ("SchemaError", lambda: tio.Schema({})),
        ("DecodeError", lambda: list(tio.TFRecordDataset(paths, missing))),
        ("TypeError", lambda: tio.TFRecordDataset(paths, SCHEMA, batchsize=4)),  # type: ignore[call-overload]
    ]
    for error, attempt in attempts:
        with pytest.raises(Exception, match=r"\w") as raised:
            attempt()
        assert raised.type.__name__ == error
        message = str(raised.value)
        patterns = [re.escape(text).replace(re.escape("..."), ".*") for text in table[error]]
        assert any(re.search(pattern, message, re.DOTALL) for pattern in patterns), message


def test_table_is_on_the_page_of_the_site(messages: Any) -> None:
    assert TEXT.count(messages.MARK) == 1
    page = SimpleNamespace(file=SimpleNamespace(src_uri="troubleshooting.md"))
    shown = messages.on_page_markdown(TEXT, page=page)
    assert messages.MARK not in shown
    rows = [line for line in shown.splitlines() if "<code>" in line]
    assert len(rows) == len(messages.messages()) > 800
    assert all(row.count("|") == 4 for row in rows)
    other = SimpleNamespace(file=SimpleNamespace(src_uri="order.md"))
    assert messages.on_page_markdown(TEXT, page=other) == TEXT


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


def words_of(text: str) -> list[str]:
    """Return the words of a message, without those that are split by a gap."""
    return re.findall(r"[A-Za-z]{2,}", text)


def is_in_order(wanted: list[str], words: list[str]) -> bool:
    """Return whether words occur in others in this order."""
    rest = iter(words)
    return all(word in rest for word in wanted)


def longest_text(reason: ast.expr) -> list[str]:
    """What is written of a message, with gaps where values go; nothing if it is from elsewhere."""
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [reason.value]
    if isinstance(reason, ast.JoinedStr):
        parts = [part.value for part in reason.values if isinstance(part, ast.Constant)]
        return ["\0".join(map(str, parts))]
    return []
