"""Conversion of TFRecord to plain files, and hostile file names in data."""

from __future__ import annotations

import os
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.convert.reading import contents
from tests.support.tfrecord import write_tfrecord
from torchrec_io.convert.file_export import to_files
from torchrec_io.convert.file_names import checked_path

JPEG = b"\xff\xd8\xff and so on"
PNG = b"\x89PNG\r\n\x1a\n and so on"


def write_examples(folder: Path, *examples: dict[str, list[Any]]) -> Path:
    return write_tfrecord(folder / "in", [tio.encode_example(each) for each in examples])


def images(*names: bytes) -> list[dict[str, list[Any]]]:
    return [{"image": [JPEG + b"%d" % n], "name": [name]} for n, name in enumerate(names)]


def test_image_folder_round_trip(tmp_path: Path) -> None:
    examples: list[dict[str, list[Any]]] = [
        {
            "image/encoded": [(JPEG, PNG)[n % 2] + b"%d" % n],
            "image/filename": [b"%d" % n + (b".JPEG" if n % 2 else b"")],
            "image/class/text": [b"cat" if n % 3 else b"big dog"],
            "image/class/label": [n % 3 - 1],
        }
        for n in range(9)
    ]
    path = write_examples(tmp_path, *examples)
    done = to_files(
        path,
        tmp_path / "text",
        "image/encoded",
        name_from="image/filename",
        by_class="image/class/text",
    )
    assert contents(tmp_path / "text") == {
        f"{'cat' if n % 3 else 'big dog'}/{n}.{'JPEG' if n % 2 else 'jpg'}": (JPEG, PNG)[n % 2]
        + b"%d" % n
        for n in range(9)
    }
    assert (done.paths, done.counts) == ((str(tmp_path / "text"),), (9,))
    to_files(path, tmp_path / "label", "image/encoded", by_class="image/class/label")
    assert set(contents(tmp_path / "label")) == {
        f"{n % 3 - 1}/{n:09d}.{('jpg', 'png')[n % 2]}" for n in range(9)
    }
    plain = tmp_path / "plain"
    plain.mkdir()
    assert (tmp_path / "text").stat().st_mode == plain.stat().st_mode
    assert not list(tmp_path.glob(".*"))


HOSTILE = [
    b"../up.jpg",
    b"a/../../up.jpg",
    b"/etc/passwd",
    b"a\0.jpg",
    b"",
    b".",
    b"..",
    b"a//b",
    b"a/",
    b"C:\\x.jpg",
    b"c:x",
    b"..\\x",
    b"con",
    b"a/NUL.txt",
    b"trailing.",
    b"trailing ",
    b"new\nline",
    b"\xff\xfe",
    b"x" * 300,
    b"/".join([b"x" * 100] * 11),
    "right\u202eleft".encode(),
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name[:20]))
def test_hostile_names(tmp_path: Path, name: bytes) -> None:
    path = write_examples(tmp_path, *images(b"a.jpg", name, b"b.jpg"))
    with pytest.raises(tio.DecodeError, match="is not a valid file name") as caught:
        to_files(path, tmp_path / "out", "image", name_from="name")
    assert (caught.value.record, caught.value.feature) == (1, "name")
    assert list(tmp_path.iterdir()) == [path]
    done = to_files(path, tmp_path / "out", "image", name_from="name", on_error="skip")
    assert (done.records, done.skipped) == (2, 1)
    assert contents(tmp_path / "out") == {"a.jpg": JPEG + b"0", "b.jpg": JPEG + b"2"}


@pytest.mark.parametrize("name", ["link", "x" * 255])
def test_output_folders(tmp_path: Path, name: str) -> None:
    path = write_examples(tmp_path, *images(b"a.jpg"))
    if name == "link":
        (tmp_path / "empty").mkdir()
        (tmp_path / "link").symlink_to("empty")
    to_files(path, tmp_path / name, "image", name_from="name")
    assert contents(tmp_path / name) == {"a.jpg": JPEG + b"0"}
    assert (tmp_path / name).is_symlink() == (name == "link")


def test_hostile_class_name(tmp_path: Path) -> None:
    path = write_examples(tmp_path, *images(b"..", b"good"))
    done = to_files(path, tmp_path / "out", "image", by_class="name", on_error="skip")
    assert set(contents(tmp_path / "out")) == {"good/000000001.jpg"}
    assert [(error.record, error.feature) for error in done.errors] == [(0, "name")]


@pytest.mark.parametrize(
    ("names", "bad"),
    [
        ((b"a.jpg", b"a.jpg"), "a.jpg"),
        ((b"a.b", b"a.b/c.jpg"), "a.b/c.jpg"),
        ((b"a.b", b"a.b/c/d.jpg"), "a.b/c/d.jpg"),
        ((b"a.b/c.jpg", b"a.b"), "a.b"),
    ],
)
def test_first_file_of_a_duplicate_name_is_kept(
    tmp_path: Path, names: tuple[bytes, ...], bad: str
) -> None:
    path = write_examples(tmp_path, *images(*names))
    done = to_files(path, tmp_path / "out", "image", name_from="name", on_error="skip")
    assert contents(tmp_path / "out") == {names[0].decode(): JPEG + b"0"}
    [error] = done.errors
    assert f"has the file name {bad!r}" in error.reason


PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "a", "b.c", "\\", "con", "\0", "a "]),
    st.text(st.sampled_from(string.printable + "é\u202e\ud7ff"), max_size=4),
)


@given(st.lists(PARTS, max_size=5))
@example(["a", "..", "b"])
def test_paths_stay_within_the_folder(parts: list[str]) -> None:
    text = "/".join(parts)
    try:
        path = checked_path(text.encode(), "name")
    except tio.DecodeError:
        return
    assert path == text == os.path.normpath(text)
    assert not os.path.isabs(path)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, path)
        assert target.resolve().is_relative_to(Path(folder).resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def test_existing_folder(tmp_path: Path) -> None:
    path = write_examples(tmp_path, *images(b"a.jpg"))
    out = tmp_path / "out"
    out.mkdir()
    to_files(path, out, "image")  # an empty folder is accepted
    before = contents(out)
    assert before
    for target in (out, path):
        with pytest.raises(FileExistsError):
            to_files(path, target, "image")
    assert contents(out) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature": "no"}, "no feature 'no'; the features are image, name, number, some"),
        ({"feature": "number"}, "must be a bytes value, got int64"),
        ({"name_from": "number"}, "must be a bytes value, got int64"),
        ({"by_class": "some"}, "a bytes value or an integer, got float32"),
        ({"on_error": "ignore"}, "must be one of 'raise', 'skip'"),
    ],
)
def test_invalid_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write_examples(tmp_path, {**images(b"a")[0], "number": [1], "some": [1.0, 2.0]})
    with pytest.raises(ValueError, match=message):
        to_files(path, tmp_path / "out", **{"feature": "image", **options})
    assert list(tmp_path.iterdir()) == [path]


def test_features_of_late_records_are_known(tmp_path: Path) -> None:
    path = write_examples(tmp_path, *[{"data": [b"a"]}] * 1200, {"data": [b"b"], "name": [b"x"]})
    with pytest.raises(tio.DecodeError, match="every record must have one value; skip") as caught:
        to_files(path, tmp_path / "out", "data", name_from="name")
    assert (caught.value.record, caught.value.feature) == (0, "name")
    done = to_files(path, tmp_path / "out", "data", name_from="name", on_error="skip")
    assert (done.records, done.skipped) == (1, 1200)
    assert (tmp_path / "out" / "x.txt").read_bytes() == b"b"
