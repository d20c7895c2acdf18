"""Datasets with packed rows: bad records and invalid options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.documents import (
    LENGTH,
    LENGTHS,
    MODES,
    SCHEMA,
    make,
    packed,
    record,
    rows_of,
    tokens_of,
    weights_of,
)
from tests.support.examples import example_of
from tests.support.tfrecord import frame, write_tfrecord

# Records without tokens, with a bad checksum, with strings, and with too few weights.
BAD = (3, 5, 8, 11)


def write_bad(folder: Path, *bad: int) -> Path:
    """Write a file in which some of the records are bad."""
    records = {number: record(number) for number in range(30)}
    worse = {
        3: example_of(id=[3], weights=[1.0]),
        8: example_of(id=[8], tokens=[b"x"] * 4, weights=[1.0] * 4),
        11: example_of(id=[11], tokens=tokens_of(11), weights=weights_of(11)[1:]),
    }
    records |= {number: worse[number] for number in bad if number in worse}
    frames = [frame(each) for each in records.values()]
    if 5 in bad:
        frames[5] = frames[5][:-1] + bytes([frames[5][-1] ^ 1])
    path = folder / "damaged"
    path.write_bytes(b"".join(frames))
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return write_bad(tmp_path, *BAD)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (3, ValueError, r"1 of 30 records has no tokens .*record 3.* on_error='skip'"),
        (5, tio.CorruptRecordError, "record 5"),
        (8, tio.DecodeError, "record 8.*tokens"),
        (
            11,
            tio.DecodeError,
            rf"each of {LENGTHS[11]} tokens, got {LENGTHS[11] - 1} \(record 11, .*'weights'",
        ),
    ],
    ids=["empty", "damaged", "dtype", "also"],
)
@pytest.mark.parametrize(("mode", "batch_size"), [("fit", 3), ("chunk", 3), ("chunk", None)])
def test_each_raises_with_its_record(  # noqa: PLR0917
    tmp_path: Path, mode: Any, bad: int, error: Any, message: str, batch_size: int | None
) -> None:
    pack = packed(mode=mode, also=["weights"])
    path = write_bad(tmp_path, bad)
    seen: list[Any] = []
    with pytest.raises(error) as caught:
        for item in make(path, pack, batch_size=batch_size):
            seen += item["record_numbers"].tolist() if batch_size is None else []
    assert re.search(message, str(caught.value)), str(caught.value)
    assert bad not in seen
    if batch_size is None and bad != 3 and mode == "chunk":
        assert seen  # rows before it


@pytest.mark.parametrize("mode", MODES)
def test_skipped_records_become_padding(damaged: Path, mode: Any) -> None:
    pack = packed(mode=mode, also=["weights"], labels="next")
    options: dict[str, Any] = {"shuffle": True, "on_error": "skip"}
    plain = make(damaged, pack, **options)
    whole = list(plain)
    assert plain.skipped == 4
    assert len(whole) == len(plain.replace())
    for batch in whole:
        for row in range(len(batch["tokens"])):
            _check_row(batch, row, BAD)
    numbers = {n for b in whole for n in b["record_numbers"].flat_values.tolist()}
    if mode == "fit":
        assert numbers == {*range(30)} - {*BAD}
    ranks = [
        make(damaged, pack, rank=rank, world_size=3, uneven="pad", **options) for rank in range(3)
    ]
    counts = [len(list(rank)) for rank in ranks]
    assert counts == [len(rank.replace()) for rank in ranks]
    assert len(set(counts)) == 1


def test_padded_tokens_with_lost_records(damaged: Path) -> None:
    schema = {
        "tokens": tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
        "weights": tio.RaggedFeature("float32"),
    }
    pack = packed(also=["weights"], labels="next")
    options: dict[str, Any] = {"pack": pack, "batch_size": 3, "on_error": "skip"}
    dataset = tio.TFRecordDataset(damaged, schema, **options)
    other = make(damaged, pack, on_error="skip")
    for found, expected in zip(dataset, other, strict=True):
        for name in ("tokens", "weights", "labels", "segment_ids"):
            assert found[name].tolist() == expected[name].tolist()
    assert dataset.skipped == 4


@pytest.mark.parametrize(
    "spec", [tio.VarLenFeature("int16"), tio.VarLenFeature("int64", valid_range=(0, 60_000))]
)
def test_errors_do_not_depend_on_the_piece(tmp_path: Path, spec: Any) -> None:
    """A value that is not valid is in a piece of another batch."""
    tokens = [1] * 50
    tokens[45] = 70_000
    records = [example_of(tokens=some) for some in ([2] * 16, tokens, [3] * 16)]
    path = write_tfrecord(tmp_path / "long", records)
    errors: list[Any] = []
    dataset = tio.TFRecordDataset(
        path, {"tokens": spec}, pack=tio.Pack(16), batch_size=1, on_error=errors.append
    )
    rows = rows_of(dataset)
    assert [row for row in rows if any(row)] == [[2] * 16, [3] * 16]
    assert len(rows) == 6
    assert [error.record for error in errors] == [1]


def test_rows_without_documents(tmp_path: Path) -> None:
    """All documents of a batch may be lost: its rows are padding."""
    bad = example_of(tokens=[b"x"])
    path = write_tfrecord(tmp_path / "bad", [bad] * 20 + [example_of(tokens=[7] * 4)])
    schema = {"tokens": tio.VarLenFeature("int64")}
    dataset = tio.TFRecordDataset(
        path, schema, pack=tio.Pack(4, labels="same"), batch_size=2, on_error="skip"
    )
    batches = list(dataset)
    assert rows_of(batches) == [[0] * 4] * 5 + [[7] * 4]
    assert batches[0]["segment_lengths"].tolist() == [[4], [4]]
    assert batches[0].cu_seqlens.tolist() == [0, 4, 8]
    assert batches[0]["labels"].tolist() == [[-100] * 4] * 2


def test_a_mixture_reports_each_record(damaged: Path) -> None:
    part = tio.TFRecordDataset(damaged, SCHEMA, on_error="skip", uneven="keep")
    dataset = tio.mix([part, part], weights=[1, 1], stop="each_once", pack=packed(also=["weights"]))
    list(dataset)
    assert dataset.skipped == 1 + 2 * 3  # the empty ones are reported as one


@pytest.mark.parametrize("count", [0, 20])
def test_an_endless_mixture_without_documents(tmp_path: Path, count: int) -> None:
    path = write_tfrecord(tmp_path / "empty", [example_of(tokens=[1] * count)] * 3)
    schema = {"tokens": tio.VarLenFeature("int64")}
    part = tio.TFRecordDataset(path, schema, on_error="skip")
    with pytest.raises(ValueError, match="needs documents with tokens that fit in a row"):
        tio.mix([part], weights=[1], stop="endless", pack=packed(long="drop"))


def test_records_left_out_by_a_split_are_not_reported(damaged: Path) -> None:
    assert make(damaged, split="[12:]").skipped == 0
    with pytest.raises(ValueError, match="no tokens"):
        make(damaged, split="[:12]")


def _check_row(batch: Any, row: int, bad: tuple[int, ...]) -> None:
    """Check that a row has the tokens of its documents, then padding."""
    tokens, segments = batch["tokens"][row], batch["segment_ids"][row]
    positions = batch["position_ids"][row]
    numbers = batch["record_numbers"].tolist()[row]
    assert not {*numbers} & {*bad}
    sizes = batch["segment_lengths"].tolist()[row]
    assert sum(sizes) == LENGTH
    ids = [i + 1 for i, _ in enumerate(numbers)]
    ids += [0] * (len(sizes) - len(ids))
    assert segments.tolist() == [i for i, size in zip(ids, sizes, strict=True) for _ in range(size)]
    for index, number in enumerate(numbers, 1):
        own = tokens[segments == index].tolist()
        first = own[0] - 1000 * number
        assert own == tokens_of(number)[first : first + len(own)]
        assert positions[segments == index].tolist() == [*range(len(own))]
        assert batch["weights"][row][segments == index].tolist() == [each / 2 for each in own]
    assert not tokens[segments == 0].any()
