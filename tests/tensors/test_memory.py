"""Tests of the error for a batch that does not fit in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io import _core

BYTES = example_of(x=[b"ab"])


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (tio.RawFeature("uint8", fixed_length=1 << 50), 3 << 50),
        (tio.RawFeature("complex128", fixed_length=16 << 59), 3 << 63),
        (tio.ImageFeature(size=(1 << 28, 1 << 28)), 9 << 56),
    ],
)
def test_a_schema_that_needs_too_much_memory(spec: Any, size: int) -> None:
    schema = {
        "small": tio.FixedLenFeature([], "int64", 7),
        "x": spec,
        "y": tio.VarLenFeature("string"),
    }
    with pytest.raises(MemoryError) as caught:
        tio.parse_examples([BYTES] * 3, schema)
    said = str(caught.value)
    total = int(said.partition("which needs ")[2].partition(" bytes")[0].replace(",", ""))
    assert size <= total <= size + 1000
    assert f"not enough memory for a batch of 3 records, which needs {total:,} bytes (" in said
    assert f"its column 'x' needs {size:,} bytes (" in said
    assert said.endswith(": use a smaller batch_size, or shorter rows of padded columns")


def test_records_with_too_few_values_are_reported_first() -> None:
    for dtype in ("uint8", "complex128"):
        with pytest.raises(tio.DecodeError, match="2 bytes"):
            tio.parse_examples([BYTES] * 3, {"x": tio.RawFeature(dtype, [1 << 59])})


def allow_at_most(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let allocations of more bytes fail."""
    allocate = _core.allocate

    def at_most(size: int) -> Any:
        if size > most:
            raise MemoryError("std::bad_alloc")
        return allocate(size)

    monkeypatch.setattr(_core, "allocate", at_most)


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No arena is to be had, as small as it may be."""
    allow_at_most(-1, monkeypatch)


@pytest.mark.usefixtures("no_memory")
class TestTheLargestColumnIsNamed:
    def said(self, records: list[bytes], schema: Any) -> str:
        is_sequence = isinstance(schema, tio.Schema)
        parse: Any = tio.parse_sequence_examples if is_sequence else tio.parse_examples
        with pytest.raises(MemoryError) as caught:
            parse(records, schema)
        return str(caught.value)

    def test_padded(self) -> None:
        steps = [[number] for number in range(100)]
        records = [sequence_example_of({}, {"x": steps}), sequence_example_of({}, {"x": []})]
        said = self.said(
            records,
            tio.Schema(context={}, sequence={"x": tio.FixedLenSequenceFeature([1], "int16")}),
        )
        assert said == (
            "not enough memory for a batch of 2 records, which needs 512 bytes (0.5 KiB); its "
            "column 'x' needs 448 bytes (0.4 KiB) of that: use a smaller batch_size, or shorter "
            "rows of padded columns"
        )

    @pytest.mark.parametrize(
        ("spec", "size"),
        [
            (tio.VarLenFeature("float32"), 4 * 40 + 8 * 3),
            (tio.SparseFeature("i", "x", "float64", 99), (8 + 16) * 40),
            (tio.FixedLenFeature([20], "bfloat16"), 128),
            (tio.FixedLenFeature([], "string"), 24 + 200),
            (tio.VarLenFeature("string"), 24 + 24 + 200),
            (tio.RawFeature("uint8", shape_key="i"), 200),
        ],
    )
    def test_sizes_of_columns(self, spec: Any, size: int) -> None:
        if "float" in spec.dtype:
            record = example_of(x=[0.5] * 20, i=list(range(20)))
        else:
            record = example_of(x=[bytes(100)], i=[100])
        said = self.said([record] * 2, {"x": spec, "y": tio.VarLenFeature("int8")})
        assert f"its column 'x' needs {size:,} bytes" in said

    def test_collating(self) -> None:
        samples = [{"x": torch.zeros(1000), "n": 1}] * 3
        with pytest.raises(MemoryError, match=r"of 3 records.* column 'x' needs 12,032 bytes"):
            tio.collate(samples)


def test_padding_that_needs_more_memory_than_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_at_most(5000, monkeypatch)
    ragged = [tio.Sample({"x": torch.zeros(size)}, {"x": "int64"}) for size in (10, 1000)]
    with pytest.raises(MemoryError, match=r"column 'x' needs 8,000 bytes.* shorter rows"):
        tio.pad_collate(ragged)


BATCH = 50
LONG = 430  # record; far behind the first runs of several batches
STEPS = 300_000
NUMBER = tio.FixedLenFeature([], "int64")
STEP = tio.FixedLenSequenceFeature([], "int64", allow_missing=True)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file with a long record, to which all others of its batch are padded."""
    records = [
        example_of(id=[number], steps=[1] * (STEPS if number == LONG else number % 3))
        for number in range(LONG + 2 * BATCH)
    ]
    path = tmp_path_factory.mktemp("data") / "data"
    write_tfrecord(path, records)
    return str(path)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("schema", "most", "messages"),
    [
        (
            {"id": NUMBER, "steps": STEP},
            1 << 20,
            [
                f"not enough memory for a batch of {BATCH} records, which needs ",
                f"'steps' needs {BATCH * STEPS * 8:,} bytes (114.4 MiB)",
            ],
        ),
        (
            {"id": NUMBER},
            STEPS,  # the records themselves are larger
            [f"not enough memory for {BATCH} records, 30", " bytes as stored"],
        ),
    ],
)
def test_the_error_is_raised_after_the_batches_before_it(
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    schema: Any,
    most: int,
    messages: list[str],
    workers: int,
) -> None:
    allow_at_most(most, monkeypatch)
    dataset = tio.TFRecordDataset(path, schema, batch_size=BATCH)
    options: Any = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    batches = iter(DataLoader(dataset, batch_size=None, **options))
    for number in range(LONG // BATCH):
        found = next(batches)["id"].tolist()
        assert found == [*range(number * BATCH, (number + 1) * BATCH)]
    with pytest.raises(MemoryError) as caught:
        next(batches)
    assert all(message in str(caught.value) for message in messages)


def test_memory_that_parsing_itself_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 16.0 GiB")

    schema = {"x": tio.SparseFeature("i", "v", "int64", 10)}
    record = example_of(i=[1, 0], v=[1, 2])
    monkeypatch.setattr("numpy.lexsort", fail)
    with pytest.raises(
        MemoryError, match=r"parse a batch of 1 record, [\d,]+ bytes as stored \(Unab"
    ):
        tio.parse_examples([record], schema)
