"""Columns of steps match the columns of whole episodes."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.images import encoded, smooth
from tests.support.plain import plain
from torchrec_io._parsing.columns.elements import Elements
from torchrec_io._parsing.record_random import DEFAULT_RANDOM
from torchrec_io._records.record_block import RecordBlock
from torchrec_io.checks import counted
from torchrec_io.episodes.offsets import StepOffsets
from torchrec_io.episodes.parser import Episodes, StepParser
from torchrec_io.episodes.reader import StepNumbers
from torchrec_io.episodes.step_counts import StepCounter

ROWS = tio.RaggedFeature.RowLengths
UNIFORM = tio.RaggedFeature.UniformRowLength

# Features of the record, with each kind of column.
RECORD = {
    "id": tio.FixedLenFeature([], "int64"),
    "also": tio.FixedLenFeature([], "int64"),  # same shape and dtype as another feature
    "half": tio.FixedLenFeature([2], "bfloat16"),
    "name": tio.FixedLenFeature([], "string"),
    "pair": tio.FixedLenFeature([2], "string"),
    "words": tio.VarLenFeature("string"),
    "rows": tio.RaggedFeature("float32", "r", [ROWS("l")]),
    "padded": tio.FixedLenSequenceFeature([2], "int64", allow_missing=True),
    "padded_words": tio.FixedLenSequenceFeature([], "string", allow_missing=True),
    "sparse": tio.SparseFeature("at", "value", "int64", 9),
    "raw": tio.RawFeature("int16", shape_key="raw_shape"),
}
# Features of steps, of each kind that supports them.
STEPS = {
    "s/one": tio.VarLenFeature("float32"),
    "s/narrow": tio.VarLenFeature("int8"),
    "s/text": tio.VarLenFeature("string"),
    "s/matrix": tio.RaggedFeature("int64", partitions=[UNIFORM(2), UNIFORM(1)]),
    "s/rows": tio.RaggedFeature("int64", "s/r", [ROWS("s/l")], "int64"),
    "s/pairs": tio.RaggedFeature("int64", "s/p", [ROWS("s/l"), UNIFORM(2)], "int64"),
    "s/deep": tio.RaggedFeature("string", "s/d", [ROWS("s/l"), ROWS("s/m")], "int64"),
    "s/int32": tio.RaggedFeature("int32", "s/n", [tio.RaggedFeature.RowStarts("s/starts")]),
    "s/padded": tio.FixedLenSequenceFeature([2], "float32", allow_missing=True),
    "s/padded_text": tio.FixedLenSequenceFeature([], "string", allow_missing=True),
}
IMAGE = tio.ImageFeature(layout="HWC")
SIZED = tio.ImageFeature(size=(2, 3), resize=None, layout="HWC")
ARRAY = tio.RawFeature("int16", [2])
# Features of sequences of bytes values.
SEQUENCES = {
    "s/sized": tio.SequenceFeature(SIZED, key="s/images"),
    "s/images": tio.SequenceFeature(IMAGE),
    "s/arrays": tio.SequenceFeature(ARRAY),
    "s/open": tio.SequenceFeature(tio.RawFeature("int8", [None, 2]), key="s/arrays"),
    "s/shaped": tio.SequenceFeature(tio.RawFeature("int8", shape_key="s/shapes"), key="s/b"),
    "s/several": tio.SequenceFeature(ARRAY, key="s/c", partitions=[ROWS("s/k")]),
    "s/unlike": tio.SequenceFeature(
        tio.RawFeature("int8", [None]), key="s/c", partitions=[ROWS("s/k")]
    ),
    "s/deeper": tio.SequenceFeature(
        tio.RawFeature("int8", [None]), key="s/e", partitions=[ROWS("s/k"), ROWS("s/k2")]
    ),
    "whole": tio.SequenceFeature(SIZED, key="t"),
    "whole_unlike": tio.SequenceFeature(
        tio.RawFeature("int8", [None]), key="s/c", partitions=[ROWS("s/k")]
    ),
}
# The same number of steps in every record.
FIXED = {
    "s/fixed": tio.FixedLenFeature([3, 2], "int64"),
    "s/alike": tio.FixedLenFeature([3, 2], "int64"),
    "s/texts": tio.FixedLenFeature([3], "string"),
    "s/one": tio.VarLenFeature("float32"),
    "s/of_three": tio.SequenceFeature(ARRAY, 3, key="s/arrays"),
}


def record(number: int, steps: int) -> bytes:
    """Return a record whose values are all different."""
    rng = np.random.default_rng([number, steps])
    lengths = rng.integers(0, 3, steps).tolist()
    inner = rng.integers(0, 3, sum(lengths)).tolist()
    base = 100 * number
    texts = [f"{base + i}".encode() * (1 + i % 3) for i in range(steps)]
    numbers = range(base, base + 2 * steps)
    return example_of(
        **{
            "id": [number],
            "also": [-number],
            "half": [number + 0.5, 2.0],
            "name": [f"name {number}".encode()],
            "pair": [b"a" * number, b"b"],
            "words": [b"w" * i for i in range(number)],
            "r": [float(i) for i in range(number)],
            "l": [1] * number,
            "padded": list(range(2 * number)),
            "padded_words": [b"p" * i for i in range(number)],
            "at": list(range(number))[::-1],
            "value": list(range(base, base + number)),
            "raw": [np.arange(2 * number, dtype="<i2").tobytes()],
            "raw_shape": [number, 2],
            "s/one": [base + i + 0.5 for i in range(steps)],
            "s/narrow": [i - 3 for i in range(steps)],
            "s/text": texts,
            "s/matrix": list(numbers),
            "s/r": list(range(base, base + sum(lengths))),
            "s/p": list(range(2 * sum(lengths))),
            "s/l": lengths,
            "s/n": [base] * (steps and 2),
            "s/starts": [min(i, 2) for i in range(steps)],
            "s/d": [f"d{base + i}".encode() for i in range(sum(inner))],
            "s/m": inner,
            "s/images": [encoded(smooth(2, 3, base + i), "PNG") for i in range(steps)],
            "t": [encoded(smooth(2, 3, number), "PNG")] * number,
            "s/arrays": [np.array([base, i], "<i2").tobytes() for i in range(steps)],
            "s/b": [bytes([number, i]) for i in range(steps)],
            "s/shapes": [2, 1] * steps,
            "s/c": [np.array([base, i], "<i2").tobytes() for i in range(sum(lengths))],
            "s/k": lengths,
            "s/e": [bytes([number, i]) for i in range(sum(inner))],
            "s/k2": inner,
            "s/padded": [float(i) for i in numbers],
            "s/padded_text": texts,
            "s/fixed": [*numbers] if steps == 3 else [0] * 6,
            "s/alike": [-i for i in numbers] if steps == 3 else [0] * 6,
            "s/texts": texts if steps == 3 else [b""] * 3,
        }
    )


def block_of(records: list[bytes], rows: list[int], numbers: list[int]) -> RecordBlock:
    """Return a block like those of a StepReader, with the same record in several rows."""
    lengths = np.array([len(data) for data in records], np.int64)
    starts = np.cumsum(lengths) - lengths
    buffer = np.frombuffer(b"".join(records), np.uint8)
    return RecordBlock(buffer, starts[rows], lengths[rows], np.array(numbers, np.int64))


def expected(episode: Any, name: str, begin: int, window: int | None) -> Any:
    if not name.startswith("s/"):
        return plain(episode[name])
    value = episode[name]
    return plain(value[begin] if window is None else value[begin : begin + window])


def parser_of(schema: tio.Schema, numbers: StepNumbers, window: int | None = None) -> StepParser:
    episodes = Episodes("s", numbers, StepCounter.of(schema, "s"), None)
    offsets = None if window is None else range(window)
    return StepParser(schema, episodes, StepOffsets.of(offsets, schema, "s", "drop"))


class TestEveryKind:
    @given(
        st.lists(st.integers(0, 5), min_size=1, max_size=4),
        st.sampled_from([None, 1, 2, 3]),
        st.data(),
    )
    def test_rows_in_any_order(
        self, counts: list[int], window: int | None, data: st.DataObject
    ) -> None:
        schema = tio.Schema({**RECORD, **STEPS})
        self.check(schema, counts, window, data)

    @given(
        st.lists(st.integers(0, 5), min_size=1, max_size=4),
        st.sampled_from([None, 1, 3]),
        st.data(),
    )
    def test_decoded_values(
        self, counts: list[int], window: int | None, data: st.DataObject
    ) -> None:
        self.check(tio.Schema(SEQUENCES), counts, window, data)

    @given(st.integers(1, 3), st.sampled_from([None, 2, 3]), st.data())
    def test_fixed_number_of_steps(
        self, records: int, window: int | None, data: st.DataObject
    ) -> None:
        self.check(tio.Schema(FIXED), [3] * records, window, data)

    def check(
        self, schema: tio.Schema, counts: list[int], window: int | None, data: st.DataObject
    ) -> None:
        records = [record(number, steps) for number, steps in enumerate(counts)]
        episodes = tio.parse_examples(records, schema).samples()
        numbers = StepNumbers(np.array(counts, np.int64), (0, (window or 1) - 1))
        drawn: list[int] = []
        if len(numbers):
            drawn = data.draw(st.lists(st.integers(0, len(numbers) - 1), max_size=9))
        _, rows, begins, _ = (each.tolist() for each in numbers.locate(np.array(drawn, np.int64)))
        parser = parser_of(schema, numbers, window)
        batch, failures = parser.parse(block_of(records, rows, drawn), DEFAULT_RANDOM)
        assert failures == []
        assert list(batch) == list(schema)
        samples = batch.samples()
        assert len(samples) == len(drawn)
        for sample, row, begin in zip(samples, rows, begins, strict=True):
            for name in schema:
                assert plain(sample[name]) == expected(episodes[row], name, begin, window), name
        assert not any(name.startswith("s/") for name in batch.lengths)
        for name, value in batch.items():
            assert len(value) == len(drawn)
            if name == "s/one":
                assert value.shape == (len(drawn), *([] if window is None else [window]))
        crossed = pickle.loads(pickle.dumps(batch))
        assert [*map(plain, crossed.samples())] == [*map(plain, samples)]


def test_rows_without_validation() -> None:
    splits = tio.RaggedFeature.RowLimits("l")
    schema = tio.Schema(
        {"s/x": tio.RaggedFeature("int64", "v", [splits]), "s/y": tio.VarLenFeature("int64")}
    )
    data = example_of(**{"v": [1, 2, 3], "l": [5, 2, 3], "s/y": [0, 1, 2]})
    numbers = StepNumbers(np.array([3], np.int64))
    parser = parser_of(schema, numbers)
    batch, _ = parser.parse(block_of([data], [0, 0, 0], [0, 1, 2]), DEFAULT_RANDOM)
    assert batch["s/x"].tolist() == [[1, 2, 3], [], [3]]


class TestFailures:
    numbers = StepNumbers(np.array([2, 2, -1], np.int64))
    schema = tio.Schema({"id": RECORD["id"], "s/one": STEPS["s/one"], "s/text": STEPS["s/text"]})

    def parse(self, *records: bytes) -> Any:
        rows, numbers = [0, 0, 1, 1, 2], [0, 1, 2, 3, 4]
        parser = parser_of(self.schema, self.numbers)
        return parser.parse(block_of(list(records), rows, numbers), DEFAULT_RANDOM)

    def test_samples_of_good_records_are_kept(self) -> None:
        values: Any = {"id": [1, 2], "s/one": [0.0, 1.0], "s/text": [b"", b""]}
        bad = example_of(**values)
        batch, failures = self.parse(record(0, 2), bad, b"\xff")
        assert batch["s/one"].tolist() == [0.5, 1.5]
        assert [failure.position for failure in failures] == [2, 3, 4]
        assert [failure.feature for failure in failures] == ["id", "id", None]

    def test_record_that_could_not_be_read(self) -> None:
        _, [failure] = self.parse(record(0, 2), record(1, 2), record(2, 2))
        assert failure.position == 4
        assert failure.reason == "the record could not be read when the steps of 's' were counted"

    @pytest.mark.parametrize("steps", [1, 3])
    def test_different_number_of_steps_than_counted(self, steps: int) -> None:
        batch, failures = self.parse(record(0, 2), record(1, steps), b"")
        assert len(batch["id"]) == 2
        assert {failure.position for failure in failures} == {2, 3, 4}
        assert failures[0].reason == f"it has {counted(steps, 'step')}, but 's' has 2"


def test_memory_is_used_only_for_selected_steps() -> None:
    """The arena has the steps that are asked for, not those of the episodes."""
    schema = tio.Schema({"s/matrix": STEPS["s/matrix"]})
    data = record(1, 60)
    parser = parser_of(schema, StepNumbers(np.array([60], np.int64)))
    batch, _ = parser.parse(block_of([data], [0], [7]), DEFAULT_RANDOM)
    assert batch.arena.numel() == 64
    assert batch["s/matrix"].tolist() == [[[114], [115]]]
    assert math.prod(batch["s/matrix"].shape) == 2


class TestImages:
    """Only requested images are decoded, each once."""

    schema = tio.Schema({"s/x": tio.SequenceFeature(SIZED)})

    def parse(self, images: list[bytes], window: int | None, begins: list[int]) -> Any:
        numbers = StepNumbers(np.array([len(images)], np.int64), (0, (window or 1) - 1))
        parser = parser_of(self.schema, numbers, window)
        block = block_of([example_of(**{"s/x": images})], [0] * len(begins), begins)
        return parser.parse(block, DEFAULT_RANDOM)

    def test_each_image_is_decoded_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        images = [encoded(smooth(2, 3, i), "PNG") for i in range(9)]
        seen: list[int] = []

        given = Elements.images

        def counted(elements: Elements, block: Any) -> Any:
            seen.extend(images.index(bytes(value)) for value in elements.values(block))
            return given(elements, block)

        monkeypatch.setattr(Elements, "images", counted)  # for native code
        batch, _ = self.parse(images, 3, [4, 2, 5, 2])
        assert sorted(seen) == [2, 3, 4, 5, 6, 7]
        assert batch["s/x"].shape == (4, 3, 2, 3, 3)
        for window, begin in zip(batch["s/x"], (4, 2, 5, 2), strict=True):
            for i, image in enumerate(window):
                assert image.tolist() == smooth(2, 3, begin + i).tolist()

    def test_damage_fails_only_its_samples(self) -> None:
        images = [encoded(smooth(2, 3, i), "PNG") for i in range(5)]
        images[3] = images[3][:30]
        batch, failures = self.parse(images, None, [0, 3, 1, 4, 3])
        assert [failure.position for failure in failures] == [1, 4]
        assert {failure.feature for failure in failures} == {"s/x"}
        found = [image.tolist() for image in batch["s/x"]]
        assert found == [smooth(2, 3, i).tolist() for i in (0, 1, 4)]
        _, failures = self.parse(images, 2, [0, 1, 2, 3])
        assert [failure.position for failure in failures] == [2, 3]
