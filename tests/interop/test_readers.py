"""Text lines, fixed-length records and whole files, compared with TensorFlow's readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle

CONTENTS = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"ab", b"\0", b"\xff"])).map(b"".join)


def write(folder: Path, contents: list[bytes]) -> list[str]:
    paths = [str(folder / f"{number}") for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    return paths


def ask(oracle: TfOracle, kind: str, paths: list[str], **options: Any) -> list[tuple[str, bytes]]:
    """Return the keys and records of a TensorFlow 1 reader."""
    answer = oracle.ask(op="read_by_reader", kind=kind, paths=paths, options=options)
    return [(key, bytes.fromhex(value)) for key, value in answer["pairs"]]


@given(contents=st.lists(CONTENTS, min_size=6, max_size=6), skip=st.sampled_from([0, 0, 1, 3]))
def test_lines(tf_oracle: TfOracle, tmp_path: Path, contents: list[bytes], skip: int) -> None:
    paths = write(tmp_path, contents)
    dataset = tio.TextLineDataset(paths, skip_header_lines=skip, with_key=True, num_threads=1)
    assert list(dataset) == ask(tf_oracle, "lines", paths, skip_header_lines=skip)
    first = tf_oracle.ask(op="read_by_dataset", kind="lines", path=paths[0], options={})
    # tf.data removes every "\r", and ignores a last line that contains nothing else.
    lines = [line.replace(b"\r", b"").hex() for line in tio.TextLineDataset(paths[0])]
    assert lines[: len(first["records"])] == first["records"]
    assert lines[len(first["records"]) :] in ([], [""])


@pytest.mark.slow
@given(
    contents=st.lists(st.binary(min_size=6, max_size=20), min_size=4, max_size=4),
    size=st.integers(1, 4),
    ends=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_fixed_length(
    tf_oracle: TfOracle, tmp_path: Path, contents: list[bytes], size: int, ends: tuple[int, int]
) -> None:
    """The reader ignores remaining bytes. tf.data and this library raise an error."""
    options: dict[str, Any] = {"header_bytes": ends[0], "footer_bytes": ends[1]}
    paths = write(tmp_path, contents)
    found: list[tio.TorchRecIOError] = []
    dataset = tio.FixedLengthRecordDataset(
        paths, size, with_key=True, num_threads=1, on_error=found.append, **options
    )
    assert list(dataset) == ask(tf_oracle, "fixed", paths, record_bytes=size, **options)
    for path, content in zip(paths, contents, strict=True):
        room = len(content) - sum(ends)
        assert (path in [error.path for error in found]) == (room % size > 0)
        answer = tf_oracle.ask(
            op="read_by_dataset",
            kind="fixed",
            path=path,
            options={"record_bytes": size, **options},
        )
        assert (answer["error"] is not None) == (room % size > 0)


@pytest.mark.parametrize("content", [b"", b"abc\n", bytes(100_000)], ids=len)
def test_whole_files(tf_oracle: TfOracle, tmp_path: Path, content: bytes) -> None:
    paths = write(tmp_path, [content, b"other"])
    dataset = tio.WholeFileDataset(paths, with_key=True)
    assert list(dataset) == ask(tf_oracle, "whole", paths)
