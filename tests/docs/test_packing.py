"""The Python of the page about packing, and its picture."""

from __future__ import annotations

import re
from pathlib import Path

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.examples import example_of
from tests.support.pages import run_page
from tests.support.tfrecord import write_tfrecord


def test_its_python_runs(tmp_path: Path) -> None:
    paths = [
        str(
            write_tfrecord(
                tmp_path / name,
                [example_of(id=[n], tokens=[n + 1] * (1 + 7 * n % 20)) for n in numbers],
            )
        )
        for name, numbers in {"a": range(40), "b": range(40, 60)}.items()
    ]
    run_page("packing.md", tmp_path, [], 7, paths)


def test_its_picture(tmp_path: Path) -> None:
    """The numbers in the picture are those that come out."""
    documents = [[10, 11, 12, 13], [20, 21, 22], [30, 31], [40, 41, 42, 43], [50, 51]]
    path = write_tfrecord(tmp_path / "data", [example_of(tokens=each) for each in documents])
    schema = {"tokens": tio.VarLenFeature("int64")}
    [first] = tio.TFRecordDataset(
        path, schema, split="[:2]", pack=tio.Pack(8, labels="next"), batch_size=2
    )
    [second] = tio.TFRecordDataset(
        path, schema, split="[2:]", pack=tio.Pack(8, labels="next"), batch_size=2
    )
    text = (ROOT / "docs" / "drawings" / "packing.svg").read_text("utf-8")
    for number, batch in enumerate((first, second)):
        y = 24 + 166 * number
        for name, below in (
            ("tokens", 24), ("segment_ids", 62), ("position_ids", 88), ("labels", 114),
        ):  # fmt: skip
            shown = re.findall(rf'<text class="\w" x="\d+" y="{y + below}">(-?\d+)<', text)
            assert [int(each) for each in shown] == batch[name][0].tolist(), name
    lengths = [*first["segment_lengths"].tolist()[0], *second["segment_lengths"].tolist()[0]]
    ends = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    assert [int(each) for each in re.findall(r'y="370">(\d+)<', text)] == ends
    assert f"max_seqlen is {max(lengths)}" in text
