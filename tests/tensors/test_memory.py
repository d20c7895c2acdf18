"""Tests of the error for a batch that does not fit in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord
from tests.tensors.short_of_memory import BATCH, LONG, STEPS
from torchrec_io import _core

BYTES = example_of(x=[b"ab"])


@pytest.mark.parametrize(
    ("spec", "shape", "size"),
    [
        (tio.RawFeature("uint8", fixed_length=1 << 50), f"uint8[3, {1 << 50}]", 3 << 50),
        (
            tio.RawFeature("complex128", fixed_length=16 << 59),
            f"complex128[3, {1 << 59}]",
            3 << 63,
        ),
        (
            tio.ImageFeature(size=(1 << 28, 1 << 28)),
            f"uint8[3, 3, {1 << 28}, {1 << 28}]",
            9 << 56,
        ),
    ],
)
def test_a_schema_that_needs_too_much_memory(spec: Any, shape: str, size: int) -> None:
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
    assert f"its column 'x', {shape}, needs {size:,} bytes (" in said
    assert said.endswith(": use a smaller batch_size")


def test_records_with_too_few_values_are_reported_first() -> None:
    for dtype in ("uint8", "complex128"):
        with pytest.raises(tio.DecodeError, match="2 bytes"):
            tio.parse_examples([BYTES] * 3, {"x": tio.RawFeature(dtype, [1 << 59])})


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No arena is to be had, as small as it may be."""

    def fail(_: int) -> Any:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(_core, "allocate", fail)


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
            "column 'x', int16[2, 100, 1], needs 448 bytes (0.4 KiB) of that: use a smaller "
            "batch_size or a VarLenFeature, which is not padded to the longest record"
        )

    @pytest.mark.parametrize(
        ("spec", "form", "size"),
        [
            (tio.VarLenFeature("float32"), "rows of float32[40]", 4 * 40 + 8 * 3),
            (tio.SparseFeature("i", "x", "float64", 99), "sparse float64[40]", (8 + 16) * 40),
            (tio.FixedLenFeature([20], "bfloat16"), "bfloat16[2, 20]", 128),
        ],
    )
    def test_numbers(self, spec: Any, form: str, size: int) -> None:
        record = example_of(x=[0.5] * 20, i=list(range(20)))
        said = self.said([record] * 2, {"x": spec, "y": tio.VarLenFeature("int8")})
        assert f"its column 'x', {form}, needs {size:,} bytes" in said

    @pytest.mark.parametrize(
        ("spec", "form", "size"),
        [
            (tio.FixedLenFeature([], "string"), "bytes[2]", 24 + 200),
            (tio.VarLenFeature("string"), "rows of bytes[2]", 24 + 24 + 200),
            (tio.RawFeature("uint8", shape_key="s"), "a list of 2 arrays", 200),
        ],
    )
    def test_bytes(self, spec: Any, form: str, size: int) -> None:
        record = example_of(x=[bytes(100)], s=[100])
        said = self.said([record] * 2, {"x": spec, "y": tio.VarLenFeature("int8")})
        assert f"its column 'x', {form}, needs {size:,} bytes" in said

    def test_no_columns_that_need_anything(self) -> None:
        assert "a batch of 0 records, which needs 0 bytes" in self.said(
            [], {"x": tio.FixedLenFeature([], "int64")}
        )

    def test_collating(self) -> None:
        samples = [{"x": torch.zeros(1000), "n": 1}] * 3
        with pytest.raises(MemoryError, match=r"of 3 records.* column 'x', float32\[3, 1000\]"):
            tio.collate(samples)


def test_padding_that_needs_more_memory_than_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = _core.allocate

    def at_most(size: int) -> Any:
        if size > 5000:
            raise MemoryError("std::bad_alloc")
        return allocate(size)

    monkeypatch.setattr(_core, "allocate", at_most)
    ragged = [tio.Sample({"x": torch.zeros(size)}, {"x": "int64"}) for size in (10, 1000)]
    with pytest.raises(MemoryError, match=r"float32\[2, 1000\].* or a smaller max_len$"):
        tio.pad_collate(ragged)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    records = [
        example_of(id=[number], steps=[1] * (STEPS if number == LONG else number % 3))
        for number in range(LONG + 2 * BATCH)
    ]
    path = tmp_path_factory.mktemp("data") / "data"
    write_tfrecord(path, records)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "method", "threads"),
    [(0, None, 2), (2, "fork", 2)],
)
def test_the_error_is_raised_after_the_batches_before_it(
    path: str, workers: int, method: str | None, threads: int
) -> None:
    """Where memory is really short: a long record, to which all others of its batch are padded."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.tensors.short_of_memory import main; main()",
            json.dumps([path, workers, method, threads]),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    before = LONG // BATCH
    assert found["came"] == [[*range(at * BATCH, (at + 1) * BATCH)] for at in range(before)]
    assert found["kind"] == "MemoryError"
    assert f"not enough memory for a batch of {BATCH} records, which needs " in found["said"]
    size = BATCH * STEPS * 8
    assert f"'steps', int64[{BATCH}, {STEPS}], needs {size:,} bytes (1.1 GiB)" in found["said"]


def test_the_records_themselves_are_too_large(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tio.TFRecordDataset(path, {"id": tio.FixedLenFeature([], "int64")}, batch_size=BATCH)
    allocate = _core.allocate

    def at_most(size: int) -> Any:
        if size > STEPS:
            raise MemoryError("std::bad_alloc")
        return allocate(size)

    monkeypatch.setattr(_core, "allocate", at_most)
    batches = iter(dataset)
    for _ in range(LONG // BATCH):
        next(batches)
    with pytest.raises(
        MemoryError, match=rf"not enough memory for {BATCH} records, 3[\d,]+ bytes as stored"
    ):
        next(batches)


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
