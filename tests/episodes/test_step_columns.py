"""Columns of steps match the columns of whole episodes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.images import encoded, smooth
from tests.support.plain import plain
from tests.support.tfrecord import write_tfrecord

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
            "s/number": list(range(base, base + steps)),
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


def expected(episode: Any, name: str, begin: int, window: int | None) -> Any:
    if not name.startswith("s/"):
        return plain(episode[name])
    value = episode[name]
    return plain(value[begin] if window is None else value[begin : begin + window])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize(
    ("features", "counts"),
    [({**RECORD, **STEPS}, (2, 0, 5, 1, 3)), (SEQUENCES, (4, 1, 0, 5)), (FIXED, (3, 3, 3))],
    ids=["numbers and texts", "sequences", "fixed number of steps"],
)
def test_columns_of_steps_are_those_of_episodes(
    tmp_path: Path, features: Any, counts: tuple[int, ...], window: int | None, shuffle: bool
) -> None:
    schema = tio.Schema({**features, "s/number": tio.VarLenFeature("int64")})
    path = write_tfrecord(tmp_path / "x", [record(*each) for each in enumerate(counts)])
    dataset = tio.TFRecordDataset(path, schema, batch_size=4, shuffle=shuffle)
    [whole] = dataset.replace(batch_size=len(counts), shuffle=False)
    episodes = whole.samples()
    found = []
    for batch in dataset.steps(None if window is None else range(window), group="s"):
        assert list(batch) == list(schema)
        assert not any(name.startswith("s/") for name in batch.lengths)
        samples = batch.samples()
        for sample in samples:
            number, begin = divmod(int(sample["s/number"].flatten()[0]), 100)
            found.append((number, begin))
            for name in schema:
                assert plain(sample[name]) == expected(episodes[number], name, begin, window), name
        for name, value in batch.items():
            assert len(value) == len(samples)
            if name == "s/one":
                assert value.shape == (len(samples), *([] if window is None else [window]))
        crossed = pickle.loads(pickle.dumps(batch))
        assert [*map(plain, crossed.samples())] == [*map(plain, samples)]
    wanted = [
        (number, begin)
        for number, steps in enumerate(counts)
        for begin in range(steps + 1 - (window or 1))
    ]
    assert (sorted(found) if shuffle else found) == wanted
