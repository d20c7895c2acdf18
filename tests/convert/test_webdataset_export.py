"""Conversion of TFRecord to WebDataset tar files, read back with the standard library."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io.convert.webdataset_export import to_webdataset

JPEG = b"\xff\xd8\xff and so on"
PNG = b"\x89PNG\r\n\x1a\n and so on"


def files_in(path: str | Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert {(m.mtime, m.uid, m.gid, m.uname, m.isfile()) for m in members} <= {
            (0, 0, 0, "", True)
        }
        found = {}
        for member in members:
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
        assert len(found) == len(members)
        return found


def write_examples(folder: Path, *examples: dict[str, list[Any]]) -> Path:
    return write_tfrecord(folder / "in.tfrecord", map(tio.encode_example, examples))


def test_one_file_per_feature(tmp_path: Path) -> None:
    one: dict[str, list[Any]] = {
        "image/encoded": [JPEG],
        "image/class/label": [3],
        "Caption": ["grün".encode()],
        "raw": [b"\xff\x00"],
        "score": [0.1],
        "box": [1.0, 2.0],
        "ids": [1, 2, 3],
        "views": [PNG],
    }
    other = {**one, "image/encoded": [PNG], "ids": [4], "views": [JPEG, b""]}
    done = to_webdataset(write_examples(tmp_path, one, other), tmp_path / "out")
    assert done.paths == (str(tmp_path / "out-000000.tar"),)
    assert done.counts == (2,)
    found = files_in(done.paths[0])
    assert sorted(name for name in found if name.startswith("000000000.")) == [
        "000000000.box.npy",
        "000000000.caption.txt",
        "000000000.ids.npy",
        "000000000.image.class.label.cls",
        "000000000.image.encoded.jpg",
        "000000000.raw.bin",
        "000000000.score.npy",
        "000000000.views.0.png",
    ]
    assert found["000000000.image.encoded.jpg"] == JPEG
    assert found["000000001.image.encoded.png"] == PNG
    assert found["000000000.image.class.label.cls"] == b"3"
    assert found["000000000.caption.txt"].decode() == "grün"
    assert found["000000000.raw.bin"] == b"\xff\x00"
    assert found["000000001.views.0.jpg"] == JPEG
    assert found["000000001.views.1.txt"] == b""
    score = np.load(io.BytesIO(found["000000000.score.npy"]))
    assert (score.shape, score.dtype) == ((), np.float32)
    assert score == np.float32(0.1)
    assert np.load(io.BytesIO(found["000000000.box.npy"])).tolist() == [1.0, 2.0]
    assert np.load(io.BytesIO(found["000000001.ids.npy"])).tolist() == [4]
    assert len(found) == 8 + 9


def test_samples_are_not_mixed(tmp_path: Path) -> None:
    examples: list[dict[str, list[Any]]] = [{"a": [n], "b": [b"x"]} for n in range(30)]
    [out] = to_webdataset(write_examples(tmp_path, *examples), tmp_path / "out").paths
    keys = [name.split(".")[0] for name in files_in(out)]
    assert keys == [f"{n:09d}" for n in range(30) for _ in range(2)]


def test_feature_lists(tmp_path: Path) -> None:
    record = sequence_example_of({}, {"f": [[JPEG], [b"\xff", PNG]], "n": [[1], [2, 3]]})
    path = write_tfrecord(tmp_path / "in", [record])
    [out] = to_webdataset(path, tmp_path / "out").paths
    found = files_in(out)
    assert json.loads(found.pop("000000000.n.json")) == [[1], [2, 3]]
    assert found == {
        "000000000.f.0.0.jpg": JPEG,
        "000000000.f.1.0.bin": b"\xff",
        "000000000.f.1.1.png": PNG,
    }


def test_values_of_a_shape(tmp_path: Path) -> None:
    examples: list[dict[str, list[Any]]] = [
        {"m": [n, 1, 2, 3], "s": [b"a", b"%d" % n]} for n in range(2)
    ]
    path = write_examples(tmp_path, *examples)
    schema = {"m": tio.FixedLenFeature([2, 2], "int64"), "s": tio.FixedLenFeature([2], "string")}
    found = files_in(to_webdataset(path, tmp_path / "out", schema=schema).paths[0])
    assert (found["000000001.s.0.txt"], found["000000001.s.1.txt"]) == (b"a", b"1")
    assert np.load(io.BytesIO(found["000000001.m.npy"])).tolist() == [[1, 1], [2, 3]]


def test_given_extensions(tmp_path: Path) -> None:
    path = write_examples(tmp_path, {"image/encoded": [b"?"], "y": [7], "v": [1, 2], "w": [b"a"]})
    schema = tio.Schema.infer(path)
    schema = tio.Schema({**schema, "w": tio.VarLenFeature("string")})
    extensions = {"image/encoded": "jpg", "y": "y.json", "v": "ids.json", "w": "w.txt"}
    done = to_webdataset(path, tmp_path / "out", schema=schema, extensions=extensions)
    assert files_in(done.paths[0]) == {
        "000000000.jpg": b"?",
        "000000000.y.json": b"7",
        "000000000.ids.json": b"[1, 2]",
        "000000000.0.w.txt": b"a",
    }


def test_keys_from_a_feature(tmp_path: Path) -> None:
    path = write_examples(tmp_path, {"f": [b"a/v1.2.JPEG"], "n": [7]}, {"f": [b"x"], "n": [-1]})
    [out] = to_webdataset(path, tmp_path / "text", key="f").paths
    assert [name.split(".")[0] for name in files_in(out)] == ["a/v1_2"] * 2 + ["x"] * 2
    [out] = to_webdataset(path, tmp_path / "number", key="n").paths
    assert [name.split(".")[0] for name in files_in(out)] == ["7"] * 2 + ["-1"] * 2


def test_keys_that_webdataset_skips(tmp_path: Path) -> None:
    names = (b"__MACOSX__/a.jpg", b"__a__.jpg", b"a/__b__/c.jpg", b"__d.jpg")
    path = write_examples(tmp_path, *({"f": [name]} for name in names))
    done = to_webdataset(path, tmp_path / "out", key="f", on_error="skip")
    assert [error.record for error in done.errors] == [0]
    assert "would skip" in done.errors[0].reason
    extensions = {"f": "x__"}
    done = to_webdataset(path, tmp_path / "b", key="f", extensions=extensions, on_error="skip")
    assert [error.record for error in done.errors] == [0, 1, 3]
    assert list(files_in(done.paths[0])) == ["a/__b__/c.x__"]


def test_flags_are_numbers(tmp_path: Path) -> None:
    path = write_examples(tmp_path, {"f": [1]})
    [out] = to_webdataset(
        path, tmp_path / "out", schema={"f": tio.FixedLenFeature([], "bool")}
    ).paths
    assert files_in(out) == {"000000000.f.cls": b"1"}


def test_name_that_is_a_folder(tmp_path: Path) -> None:
    path = write_examples(tmp_path, {"f": [1]})
    with pytest.raises(ValueError, match="is a folder"):
        to_webdataset(path, f"{tmp_path}/")
    assert list(tmp_path.iterdir()) == [path]


def test_invalid_keys(tmp_path: Path) -> None:
    path = write_examples(tmp_path, {"f": [b"ok"]}, {"f": [b"../up"]}, {"f": [b"ok.jpg"]})
    with pytest.raises(tio.DecodeError, match="leads out of its folder") as caught:
        to_webdataset(path, tmp_path / "out", key="f")
    assert (caught.value.record, caught.value.feature) == (1, "f")
    assert list(tmp_path.iterdir()) == [path]
    done = to_webdataset(path, tmp_path / "out", key="f", on_error="skip")
    assert [error.record for error in done.errors] == [1, 2]
    assert "the key 'ok'" in done.errors[1].reason
    assert list(files_in(done.paths[0])) == ["ok.f.txt"]


def test_shards_up_to_a_size(tmp_path: Path) -> None:
    examples = [{"a": [b"\xff" * size]} for size in (9300, 9300, 100, 40000, 5, 6, 7)]
    path = write_examples(tmp_path, *examples)
    done = to_webdataset(path, tmp_path / "out", max_bytes=20480, jobs=2)
    assert [Path(p).name for p in done.paths] == [f"out-{i:06d}.tar" for i in range(4)]
    assert done.counts == (1, 2, 1, 3)
    sizes = [Path(p).stat().st_size for p in done.paths]
    assert [size for size in sizes if size > 20480] == [sizes[2]]
    again = to_webdataset(path, tmp_path / "again", max_bytes=20480)
    for one, other in zip(done.paths, again.paths, strict=True):
        assert Path(one).read_bytes() == Path(other).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "no"}, "no feature 'no'"),
        ({"key": "v"}, "one integer or one bytes value"),
        ({"key": "x"}, "one integer or one bytes value"),
        ({"extensions": {"no": "jpg"}}, "no feature 'no'"),
        ({"extensions": {"a": "../x"}}, "lower-case letters"),
        ({"extensions": {"v": "cls"}}, "must end with 'npy' or 'json'"),
        ({"extensions": {"x": "jpg"}}, "must end with 'npy' or 'json' or 'txt', got 'jpg'"),
        ({"extensions": {"x": "cls"}}, "must end with 'npy' or 'json' or 'txt', got 'cls'"),
        ({"extensions": {"a": "__key__"}}, "reserved by WebDataset"),
        ({"extensions": {"a": "x.npy"}}, "have the same extension"),
        ({"max_bytes": 0}, "positive"),
    ],
)
def test_invalid_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write_examples(tmp_path, {"a": [b"a"], "v": [1, 2], "x": [1.0]})
    with pytest.raises(ValueError, match=message):
        to_webdataset(path, tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_options_are_rejected(tmp_path: Path) -> None:
    options: Any = {"job": 2}
    with pytest.raises(TypeError, match="unknown option 'job'; the options are on_error, allow_m"):
        to_webdataset(tmp_path / "in", tmp_path / "out", **options)


def test_sample_without_a_file(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(a=[b"x", b"y"]), example_of(a=[])])
    with pytest.raises(tio.DecodeError, match="the sample has no files") as caught:
        to_webdataset(path, tmp_path / "out")
    assert caught.value.record == 1


def test_late_features_are_written(tmp_path: Path) -> None:
    records = [{"a": [number]} for number in range(1200)]
    path = write_examples(tmp_path, *records, {"b": [b"late"]})
    done = to_webdataset(path, tmp_path / "out")
    files = files_in(done.paths[0])
    assert files["000001200.b.0.txt"] == b"late"
    assert len([name for name in files if name.endswith(".a.npy")]) == 1201
    assert (done.records, done.skipped, done.left_out) == (1201, 0, {})
    done = to_webdataset(path, tmp_path / "some", schema={"a": tio.VarLenFeature("int64")})
    assert done.left_out == {"b": 1}
