"""Datasets with packed rows: bad records and invalid options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.documents import (
    LENGTH,
    LENGTHS,
    MODES,
    SCHEMA,
    batches_of,
    make,
    packed,
    record,
    rows_of,
    tokens_of,
    weights_of,
    write_documents,
)
from tests.support.examples import example_of
from tests.support.tfrecord import frame, write_tfrecord


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_documents(tmp_path_factory.mktemp("packing"))


class TestBadRecords:
    """Records 3 (no tokens), 5 (a bad checksum), 8 (strings) and 11 (too few weights)."""

    BAD = (3, 5, 8, 11)

    @pytest.fixture
    def damaged(self, tmp_path: Path) -> Path:
        records = [record(number) for number in range(30)]
        records[3] = example_of(id=[3], weights=[1.0])
        records[8] = example_of(id=[8], tokens=[b"x"] * 4, weights=[1.0] * 4)
        records[11] = example_of(id=[11], tokens=tokens_of(11), weights=weights_of(11)[1:])
        frames = [frame(each) for each in records]
        frames[5] = frames[5][:-1] + bytes([frames[5][-1] ^ 1])
        path = tmp_path / "damaged"
        path.write_bytes(b"".join(frames))
        return path

    @pytest.fixture
    def only(self, damaged: Path) -> Any:
        """Return a function that writes the file with one of the bad records."""

        def write(bad: int) -> Path:
            frames = [frame(record(number)) for number in range(30)]
            whole = damaged.read_bytes()
            at = 0
            for number in range(30):
                size = 16 + int.from_bytes(whole[at : at + 8], "little")
                if number == bad:
                    frames[number] = whole[at : at + size]
                at += size
            path = damaged.with_name(f"only{bad}")
            path.write_bytes(b"".join(frames))
            return path

        return write

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
        self, only: Any, mode: Any, bad: int, error: Any, message: str, batch_size: int | None
    ) -> None:
        pack = packed(mode=mode, also=["weights"])
        path = only(bad)
        seen: list[Any] = []
        with pytest.raises(error) as caught:
            for item in make(path, pack, batch_size=batch_size):
                seen += item["record_numbers"].tolist() if batch_size is None else []
        assert re.search(message, str(caught.value)), str(caught.value)
        assert bad not in seen
        if batch_size is None and bad != 3 and mode == "chunk":
            assert seen  # rows before it

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("world", [1, 3])
    def test_skipped_records_become_padding(
        self, damaged: Path, mode: Any, workers: int, world: int
    ) -> None:
        pack = packed(mode=mode, also=["weights"], labels="next")
        options: dict[str, Any] = {"shuffle": True, "world_size": world, "uneven": "pad"}
        plain = make(damaged, pack, on_error="skip", shuffle=True)
        counts = []
        whole = list(plain)
        assert plain.skipped == 4
        assert len(whole) == len(plain.replace())
        for batch in whole:
            for row in range(len(batch["tokens"])):
                _check_row(batch, row, self.BAD)
        numbers = [n for b in whole for n in b["record_numbers"].flat_values.tolist()]
        if mode == "fit":
            assert sorted(set(numbers)) == sorted({*range(30)} - {*self.BAD})
        for rank in range(world):
            dataset = make(damaged, pack, rank=rank, on_error="skip", **options)
            loader = DataLoader(dataset, batch_size=None, num_workers=workers)
            batches = list(loader)
            counts.append(len(batches))
            assert len(batches) == len(dataset.replace())
            if world == 1:
                assert batches_of(batches) == batches_of(whole)
                assert dataset.skipped == 4
        assert len(set(counts)) == 1

    @pytest.mark.parametrize("mode", MODES)
    def test_skipped_records_with_dropped_rows(self, damaged: Path, mode: Any) -> None:
        pack = packed(mode=mode, also=["weights"])
        whole = rows_of(make(damaged, pack, on_error="skip"))
        options: dict[str, Any] = {"on_error": "skip", "uneven": "drop", "batch_size": 1}
        ranks = [make(damaged, pack, rank=rank, world_size=2, **options) for rank in range(2)]
        shares = [rows_of(rank) for rank in ranks]
        assert len(shares[0]) == len(shares[1]) == len(whole) // 2
        assigned = [row for step in zip(*shares, strict=True) for row in step]
        assert assigned == whole[: len(assigned)]

    def test_padded_tokens_with_lost_records(self, damaged: Path) -> None:
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

    @pytest.mark.parametrize("feature", ["int16", "range"])
    def test_errors_do_not_depend_on_the_piece(self, tmp_path: Path, feature: str) -> None:
        """A value that is not valid is in a piece of another batch."""
        tokens = [1] * 50
        tokens[45] = 70_000
        records = [example_of(tokens=[2] * 16), example_of(tokens=tokens)]
        path = write_tfrecord(tmp_path / "long", [*records, example_of(tokens=[3] * 16)])
        spec = (
            tio.VarLenFeature("int16")
            if feature == "int16"
            else tio.VarLenFeature("int64", valid_range=(0, 60_000))
        )
        errors: list[Any] = []
        dataset = tio.TFRecordDataset(
            path, {"tokens": spec}, pack=tio.Pack(16), batch_size=1, on_error=errors.append
        )
        rows = rows_of(dataset)
        assert [row for row in rows if any(row)] == [[2] * 16, [3] * 16]
        assert len(rows) == 6
        assert [error.record for error in errors] == [1]

    def test_rows_without_documents(self, tmp_path: Path) -> None:
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

    def test_a_mixture_reports_each_record(self, damaged: Path) -> None:
        part = tio.TFRecordDataset(damaged, SCHEMA, on_error="skip", uneven="keep")
        dataset = tio.mix(
            [part, part], weights=[1, 1], stop="all_exhausted", pack=packed(also=["weights"])
        )
        list(dataset)
        assert dataset.skipped == 1 + 2 * 3  # the empty ones are reported as one

    @pytest.mark.parametrize("count", [0, 20])
    def test_an_endless_mixture_without_documents(self, tmp_path: Path, count: int) -> None:
        path = write_tfrecord(tmp_path / "empty", [example_of(tokens=[1] * count)] * 3)
        schema = {"tokens": tio.VarLenFeature("int64")}
        part = tio.TFRecordDataset(path, schema, on_error="skip")
        with pytest.raises(ValueError, match="needs documents with tokens that fit in a row"):
            tio.mix([part], weights=[1], stop="endless", pack=packed(long="drop"))

    def test_records_left_out_by_a_split_are_not_reported(self, damaged: Path) -> None:
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


class TestRefused:
    @pytest.mark.parametrize(
        ("pack", "message"),
        [
            ({"length": 0}, "length must be an integer from 1 to 16777216, got 0"),
            ({"length": 2**24 + 1}, "length must be an integer from 1 to 16777216, got 16777217"),
            ({"length": 2.5}, "length must be an integer from 1 to 16777216, got 2.5"),
            ({"window": 0}, "window must be a positive integer, got 0"),
            ({"mode": "best"}, "mode must be one of 'fit', 'chunk', got 'best'"),
            ({"long": "cut"}, "long must be one of 'split', 'drop', 'error', got 'cut'"),
            ({"last": "keep"}, "last must be one of 'drop', 'pad', got 'keep'"),
            ({"positions": 0}, "positions must be one of 'restart', 'continue', got 0"),
            ({"labels": True}, "labels must be one of None, 'same', 'next', got True"),
            ({"separator": "</s>"}, "separator must be a token, an integer, got '</s>'"),
            ({"pad_id": None}, "pad_id must be a token, an integer, got None"),
            ({"also": "weights"}, "also must be a list of names of features, got 'weights'"),
            ({"also": ["tokens"]}, "also must name features other than key, each once"),
            ({"key": 3}, "key must be the name of a feature or None, got 3"),
        ],
        ids=str,
    )
    def test_options_of_pack(self, pack: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            packed(**pack)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"pack": 2048}, "pack must be a Pack, such as tio.Pack(2048), or None, got 2048"),
            ({"batch_tokens": 9}, "pack makes rows of one length: batch_tokens and length_key"),
            ({"length_key": "tokens"}, "pack makes rows of one length: batch_tokens and length"),
            ({"with_key": True}, "with_key must be False with pack: a row has several records"),
            ({"batch_size": None, "drop_last": True}, "drop_last needs a batch_size"),
            ({"pack": packed(key="id")}, "key of Pack must be the name of a VarLenFeature"),
            ({"pack": packed(key=None)}, "key of Pack must be the name of a VarLenFeature"),
            ({"pack": packed(also=["more"])}, "pack needs the feature 'more', which the schema"),
            ({"pack": packed(also=["id"])}, "the feature 'id' cannot be packed: it must be a"),
            (
                {"pack": packed(key="weights", labels="same")},
                "labels need tokens of an integer dtype such as int64, got torch.float32",
            ),
            ({"pack": packed(pad_id=2**63)}, "pad_id must fit the tokens, which are torch.int64"),
        ],
        ids=str,
    )
    def test_options_of_the_dataset(
        self, paths: list[str], options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            make(paths, **options)

    @pytest.mark.parametrize(
        ("feature", "message"),
        [
            (
                {"extra": tio.FixedLenSequenceFeature([], "int64", allow_missing=True)},
                "the feature 'extra' cannot be packed by document: read it as a VarLenFeature",
            ),
            (
                {"extra": tio.SparseFeature("i", "v", "int64", 9)},
                "the feature 'extra' cannot be packed by document",
            ),
            (
                {"labels": tio.FixedLenFeature([], "int64")},
                "packed rows have a column 'labels', and so has the schema: rename the feature",
            ),
        ],
        ids=["padded", "sparse", "name"],
    )
    def test_features_beside_the_tokens(
        self, paths: list[str], feature: dict[str, Any], message: str
    ) -> None:
        pack = packed(labels="same")
        with pytest.raises(ValueError, match=re.escape(message)):
            tio.TFRecordDataset(paths, {**SCHEMA, **feature}, pack=pack)

    def test_schemas_without_tokens(self, paths: list[str]) -> None:
        with pytest.raises(ValueError, match="key of Pack cannot be found because the schema has"):
            tio.TFRecordDataset(paths, pack=packed())
        strings = {"tokens": tio.VarLenFeature("string")}
        with pytest.raises(ValueError, match="the feature 'tokens' cannot be packed"):
            tio.TFRecordDataset(paths, strings, pack=packed())

    def test_steps_have_no_rows(self, paths: list[str]) -> None:
        schema = {"s/a": tio.VarLenFeature("int64"), "tokens": tio.VarLenFeature("int64")}
        message = "a dataset of steps has no packed rows"
        steps = tio.TFRecordDataset(paths, schema).steps("s")
        with pytest.raises(ValueError, match=message):
            steps.replace(pack=packed())
        with pytest.raises(ValueError, match=message):
            tio.TFRecordDataset(paths, schema, pack=packed()).steps("s")
        with pytest.raises(ValueError, match=message):
            tio.mix([steps], weights=[1], pack=packed())

    def test_other_datasets(self, paths: list[str]) -> None:
        for kind in (tio.TFRecordMapDataset, tio.TFRecordStream):
            with pytest.raises(TypeError, match="unexpected keyword argument 'pack'"):
                kind(paths, SCHEMA, pack=packed())  # type: ignore[call-overload]
