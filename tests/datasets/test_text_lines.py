"""TextLineDataset: lines, and columns of CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torchrec_io as tio

PEOPLE = tio.csv.Schema(
    {
        "age": tio.FixedLenFeature([], "int64"),
        "name": tio.FixedLenFeature([], "string", default_value="nobody"),
        "score": tio.FixedLenFeature([], "float64", default_value=0.5),
    }
)
TEXT = b'age,name,score\r\n31,Ada,1.5\r\n27,"a ""b"", c",\r\n28,,-2e3'


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"\n\n\n", [b"", b"", b""]),
        (b"a", [b"a"]),
        (b"a\r\n\r\n\rb\r", [b"a", b"", b"\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"\r", []),
        (b"\0\n\0\0", [b"\0", b"\0\0"]),
        (b"\xff\xfe\n\x85\n", [b"\xff\xfe", b"\x85"]),
    ],
)
def test_lines(tmp_path: Path, data: bytes, lines: list[bytes]) -> None:
    (tmp_path / "x").write_bytes(data)
    dataset = tio.TextLineDataset(tmp_path / "x")
    assert list(dataset) == lines
    assert len(dataset) == dataset.num_records == len(lines)
    assert dataset.schema is None


@pytest.mark.parametrize("skip", [0, 1, 3, 4, 5, 10**12])
def test_header_lines_are_skipped_in_each_file(tmp_path: Path, skip: int) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"\n".join(b"%d" % i for i in range(4)))
    dataset = tio.TextLineDataset(tmp_path, skip_header_lines=skip, with_key=True)
    assert list(dataset) == [
        (f"{tmp_path}/{name}:{i + 1}", b"%d" % i) for name in "ab" for i in range(min(skip, 4), 4)
    ]


def test_columns(people: Path) -> None:
    dataset = tio.TextLineDataset(people, PEOPLE, skip_header_lines=1, batch_size=8)
    [batch] = list(dataset)
    assert dataset.schema is PEOPLE
    assert isinstance(batch, tio.Batch)
    assert list(batch) == ["age", "name", "score"]
    assert batch["age"].dtype == torch.int64
    assert batch["age"].tolist() == [31, 27, 28]
    assert batch["score"].dtype == torch.float64
    assert batch["score"].tolist() == [1.5, 0.5, -2000.0]
    assert isinstance(batch["name"], tio.BytesArray)
    assert batch["name"].tolist() == [b"Ada", b'a "b", c', b"nobody"]
    samples = list(dataset.replace(batch_size=None))
    score = torch.tensor(0.5, dtype=torch.float64)
    assert samples[1] == {"age": torch.tensor(27), "name": b'a "b", c', "score": score}
    assert tio.collate(samples)["name"].tolist() == batch["name"].tolist()


def test_errors_name_the_position(people: Path) -> None:
    with people.open("ab") as file:
        file.write(b"\r\nold,Bob,1\r\n1,2\r\n33,Eve,7\r\n")
    dataset = tio.TextLineDataset(people, PEOPLE, skip_header_lines=1, num_threads=1, batch_size=8)
    with pytest.raises(tio.DecodeError) as caught:
        list(dataset)
    error = caught.value
    offset = people.read_bytes().index(b"old")
    assert (error.path, error.record, error.offset) == (str(people), 3, offset)
    assert (error.feature, error.reason) == ("age", "'old' is not a valid int64")


def test_other_schemas(people: Path) -> None:
    assert list(tio.TextLineDataset(people, len, split="[1:3]")) == [10, 16]
    for schema in ({"age": tio.FixedLenFeature([], "int64")}, 3):
        with pytest.raises(tio.SchemaError, match=r"lines must be a csv\.Schema, a function"):
            tio.TextLineDataset(people, schema)  # type: ignore[arg-type]
