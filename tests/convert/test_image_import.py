"""Conversion of folders of images to TFRecord."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import torchrec_io as tio
from tests.convert.reading import Heard, Row, contents, count_read, rows_of
from tests.support.images import encoded, noise, opened, oriented, smooth


def put(root: Path, name: str, data: bytes | None = None) -> bytes:
    """Write a file, by default a unique image."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = len(list(root.rglob("*")))
    data = encoded(noise(5, 7, seed=seed), "JPEG") if data is None else data
    path.write_bytes(data)
    return data


def convert(folder: Path, **options: Any) -> tio.tools.Result:
    return tio.convert.from_images(
        folder / "in", folder / "out" / "x", **{"force": True, **options}
    )


def labels_of(done: tio.tools.Result) -> list[tuple[str, int, str]]:
    return [
        (
            row["image/filename"][0].decode(),
            row["image/class/label"][0],
            row["image/class/text"][0].decode(),
        )
        for row in rows_of(done.paths)
    ]


def only_row(done: tio.tools.Result) -> Row:
    [row] = rows_of(done.paths)
    return row


# ---- records ----


def test_features_of_images(tmp_path: Path) -> None:
    data = {
        "a/one.jpg": encoded(noise(5, 7), "JPEG"),
        "a/two.PNG": encoded(noise(3, 4, 4), "PNG"),
        "b/deep/er.gif": encoded(noise(2, 2, 1), "GIF"),
    }
    for name, image in data.items():
        put(tmp_path / "in", name, image)
    done = convert(tmp_path)
    assert done.paths == (str(tmp_path / "out" / "x.tfrecord"),)
    rows = rows_of(done.paths)
    assert rows[0] == {
        "image/encoded": [data["a/one.jpg"]],
        "image/format": [b"JPEG"],
        "image/height": [5],
        "image/width": [7],
        "image/channels": [3],
        "image/colorspace": [b"RGB"],
        "image/filename": [b"one.jpg"],
        "image/class/label": [0],
        "image/class/text": [b"a"],
    }
    assert [row["image/encoded"][0] for row in rows] == list(data.values())
    assert [row["image/format"][0] for row in rows] == [b"JPEG", b"PNG", b"GIF"]
    assert rows[1]["image/colorspace"] == [b"RGBA"]
    assert rows[2]["image/filename"] == [b"deep/er.gif"]
    assert count_read(done) == 3
    assert (tmp_path / "out" / "x.labels.txt").read_text() == "a\nb\n"


def test_schema_reads_the_pixels(tmp_path: Path) -> None:
    pixels = noise(5, 7)
    put(tmp_path / "in", "a/x.png", encoded(pixels))
    done = convert(tmp_path)
    assert done.schema is not None
    [sample] = tio.TFRecordDataset(done.paths, done.schema, num_threads=1)
    np.testing.assert_array_equal(sample["image/encoded"].permute(1, 2, 0).numpy(), pixels)


def test_schema_makes_batches_of_images_of_different_sizes(tmp_path: Path) -> None:
    for number, size in enumerate([(4, 8), (5, 7), (6, 7)]):
        put(tmp_path / "in", f"a/{number}.png", encoded(noise(*size)))
    done = convert(tmp_path)
    assert done.schema is not None
    line = '"image/encoded": tio.ImageFeature(size=[5, 7]),  # 3 sizes, 4 to 8\n'
    assert line in done.schema.to_python()
    [batch] = tio.TFRecordDataset(done.paths, done.schema, batch_size=3)
    assert batch["image/encoded"].shape == (3, 3, 5, 7)


# ---- classes ----


def test_folders_are_numbered_like_in_torchvision(tmp_path: Path) -> None:
    names = ["b/2.jpg", "10/x.jpg", "9/x.jpg", "B/x.jpg", "b/10.jpg", "b/a/z.jpg"]
    for name in names:
        put(tmp_path / "in", name)
    done = convert(tmp_path)
    classes = sorted({name.split("/")[0] for name in names})
    assert (tmp_path / "out" / "x.labels.txt").read_text().split() == classes
    assert labels_of(done) == [
        ("x.jpg", 0, "10"), ("x.jpg", 1, "9"), ("x.jpg", 2, "B"),
        ("10.jpg", 3, "b"), ("2.jpg", 3, "b"), ("a/z.jpg", 3, "b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "pattern", [r"_(cat|dog)", r"(.)_(?P<label>\w+?)\.", re.compile("_(cat|dog)")]
)
def test_pattern_of_files(tmp_path: Path, pattern: Any) -> None:
    for name in ("1_dog.jpg", "2_cat.jpg", "more/3_dog.jpg"):
        put(tmp_path / "in", name)
    done = convert(tmp_path, label_pattern=pattern)
    assert labels_of(done) == [
        ("1_dog.jpg", 1, "dog"), ("2_cat.jpg", 0, "cat"), ("more/3_dog.jpg", 1, "dog"),
    ]  # fmt: skip
    put(tmp_path / "in", "4_cow.jpg")
    with pytest.raises(tio.ConversionError, match=r"4_cow\.jpg: label_pattern .* no label"):
        convert(tmp_path, label_pattern="_(cat|dog)")
    done = convert(tmp_path, label_pattern="_(cat|dog)", on_error="skip")
    assert (done.records, done.skipped) == (3, 1)


def test_labels_from_a_file(tmp_path: Path) -> None:
    for name in ("1.jpg", "2.jpg", "more/3.jpg"):
        put(tmp_path / "in", name)
    labels = tmp_path / "labels.csv"
    labels.write_text("label,note,name\ndog,,./2.jpg\ncat,,1.jpg\n\ndog,,more/3.jpg\n")
    done = convert(tmp_path, labels=labels)
    assert labels_of(done) == [("1.jpg", 0, "cat"), ("2.jpg", 1, "dog"), ("more/3.jpg", 1, "dog")]
    labels.write_text("name,label\n1.jpg,10\n2.jpg,2\nmore/3.jpg,10\n")
    done = convert(tmp_path, labels=labels)
    assert labels_of(done) == [("1.jpg", 10, "10"), ("2.jpg", 2, "2"), ("more/3.jpg", 10, "10")]
    assert (tmp_path / "out" / "x.labels.txt").read_text().split() == [str(i) for i in range(11)]


def test_labels_without_images_and_images_without_labels(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jpg")
    put(tmp_path / "in", "2.jpg")
    labels = tmp_path / "labels.csv"
    labels.write_text("name,label\n3.jpg,cat\n1.jpg,cat\n")
    with pytest.raises(tio.ConversionError, match=r"2\.jpg: the image has no label in"):
        convert(tmp_path, labels=labels)
    heard = Heard()
    done = convert(tmp_path, labels=labels, on_error="skip", watcher=heard)
    assert labels_of(done) == [("1.jpg", 0, "cat")]
    reason = "line 2: there is no image '3.jpg' for this label"
    assert heard.errors[1] == f"{labels}: {reason}"
    assert done.skipped == 2
    (tmp_path / "in" / "2.jpg").unlink()
    with pytest.raises(tio.ConversionError, match="line 2: there is no image"):
        convert(tmp_path, labels=labels)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the columns must be name and label"),
        ("1.jpg,cat\n", "line 1: the columns must be name and label, got '1.jpg, cat'"),
        ("name,label,label\n", "line 1: the columns must be name and label, got 'name, label, l"),
        ("name,label\n1.jpg\n", "line 2: the row must have a name, a label and no further"),
        ("name,label\n1.jpg,\n", "line 2: the row must have a name, a label and no further"),
        ("name,label\n1.jpg,a,b\n", "line 2: the row must have a name, a label and no further"),
        ("name,label\n1.jpg,a\n./1.jpg,b\n", "line 3: '1.jpg' already has a label in line 2"),
        ('name,label\n"1"x,b\n', "line 2: ',' expected"),
    ],
)
def test_invalid_file_of_labels(tmp_path: Path, text: str, reason: str) -> None:
    put(tmp_path / "in", "1.jpg")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(tio.ConversionError, match=reason):
        convert(tmp_path, labels=tmp_path / "labels.csv", on_error="skip")


# ---- invalid inputs ----


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    put(tmp_path / "in", "a/notes.txt", b"")
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match="in: the folder has no images"):
            convert(tmp_path, on_error=on_error)
    put(tmp_path / "in", "x.jpg")
    with pytest.raises(tio.ConversionError, match="not in the folder of a class"):
        convert(tmp_path)
    assert not (tmp_path / "out").exists()


def test_no_classes(tmp_path: Path) -> None:
    put(tmp_path / "in", "x.jpg")
    with pytest.raises(tio.ConversionError, match="no folders for classes; use label_pattern"):
        convert(tmp_path, on_error="skip")


def test_class_without_images(tmp_path: Path) -> None:
    put(tmp_path / "in", "b/x.jpg")
    (tmp_path / "in" / "a").mkdir()
    with pytest.raises(tio.ConversionError, match="in/a: the folder of the class has no images"):
        convert(tmp_path)
    done = convert(tmp_path, on_error="skip")
    assert labels_of(done) == [("x.jpg", 1, "b")]


def test_other_files_are_counted(tmp_path: Path) -> None:
    put(tmp_path / "in", "a/x.jpg")
    for name in ("README", "a/1.txt", "a/2.TXT", "a/.DS_Store", "a/._x.jpg", ".git/x.jpg"):
        put(tmp_path / "in", name, b"")
    os.mkfifo(tmp_path / "in" / "a" / "pipe.jpg")
    done = convert(tmp_path)
    assert done.records == 1
    assert done.ignored == {".txt": 2, "hidden": 3, "no suffix": 1, "not a file": 1}


def test_links(tmp_path: Path) -> None:
    put(tmp_path / "in", "a/x.jpg")
    (tmp_path / "in" / "b").symlink_to(tmp_path / "in" / "a")
    (tmp_path / "in" / "a" / "again").symlink_to(tmp_path / "in")  # a cycle
    done = convert(tmp_path)
    assert ("x.jpg", 1, "b") in labels_of(done)
    assert done.records < 5
    (tmp_path / "in" / "loop").symlink_to("loop")
    (tmp_path / "in" / "a" / "loop").symlink_to("loop")
    assert convert(tmp_path).ignored == {"no suffix": 1 + done.records}
    gone = tmp_path / "in" / "a" / "gone.jpg"
    for target, reason in [("nowhere", "No such"), ("gone.jpg", "Too many levels")]:
        gone.symlink_to(target)
        with pytest.raises(tio.ConversionError, match=rf"gone\.jpg: .* cannot be read: {reason}"):
            convert(tmp_path)
        gone.unlink()


CUT = encoded(smooth(64, 64), "JPEG")[:-500]
SMOOTH = encoded(smooth(40, 50), "JPEG")
PROGRESSIVE = encoded(smooth(40, 50), "JPEG", progressive=True)
BAD = {
    "empty": b"",
    "text": b"no image at all",
    "cut": CUT,
    # Pillow alone would make up the rest of these.
    "half of a progressive one": PROGRESSIVE[: len(PROGRESSIVE) // 2] + b"\xff\xd9",
    "a cut scan": SMOOTH[:-40] + b"\xff\xd9",
    "cut png": encoded(noise(9, 9), "PNG")[:-30],
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
}


@pytest.mark.parametrize("kind", BAD)
def test_invalid_image(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "in", "a/1.jpg")
    put(tmp_path / "in", "a/2.jpg", BAD[kind])
    put(tmp_path / "in", "a/3.jpg")
    with pytest.raises(tio.ConversionError, match="the image cannot be opened: ") as raised:
        convert(tmp_path)
    assert raised.value.path == str(tmp_path / "in" / "a" / "2.jpg")
    assert not contents(tmp_path / "out")
    heard = Heard()
    done = convert(tmp_path, on_error="skip", watcher=heard)
    assert [name for name, _, _ in labels_of(done)] == ["1.jpg", "3.jpg"]
    assert (done.skipped, heard.errors) == (1, [str(raised.value)])
    assert heard.size == heard.total


def test_image_that_declares_too_many_pixels(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("1", (8193, 8193)).save(file, "PNG")
    put(tmp_path / "in", "a/1.png", file.getvalue())
    with pytest.raises(tio.ConversionError, match="claims 8193 x 8193 pixels, more than"):
        convert(tmp_path)


def test_file_names_that_are_not_text(tmp_path: Path) -> None:
    name = b"\xff.jpg"
    put(tmp_path / "in", "a/x.jpg")
    os.rename(tmp_path / "in" / "a" / "x.jpg", os.fsencode(tmp_path / "in" / "a") + b"/" + name)
    assert only_row(convert(tmp_path))["image/filename"] == [name]
    os.rename(tmp_path / "in" / "a", tmp_path / "in" / "a\nb")
    with pytest.raises(tio.ConversionError, match=r"class 'a\\nb' contains a line break"):
        convert(tmp_path)


# ---- re-encoded images ----


@pytest.mark.parametrize(
    ("resize", "size"),
    [((30, 20), (30, 20)), (20, (30, 20)), (80, (122, 80)), (1, (1, 1))],
)
def test_resize(tmp_path: Path, resize: Any, size: tuple[int, int]) -> None:
    put(tmp_path / "in", "a/x.png", encoded(smooth(40, 61)))
    row = only_row(convert(tmp_path, resize=resize))
    image = opened(row["image/encoded"][0])
    assert image.size == size
    assert (row["image/width"], row["image/height"]) == ([size[0]], [size[1]])
    wanted = Image.fromarray(smooth(40, 61)).resize(size, Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(np.asarray(image), np.asarray(wanted))


def test_encode(tmp_path: Path) -> None:
    put(tmp_path / "in", "a/x.png", encoded(smooth(40, 60)))
    best = only_row(convert(tmp_path, encode="jpeg", quality=100))
    worst = only_row(convert(tmp_path, encode="jpeg", quality=5))
    assert best["image/format"] == [b"JPEG"]
    assert len(worst["image/encoded"][0]) < len(best["image/encoded"][0])
    put(tmp_path / "in", "a/x.png", best["image/encoded"][0])
    row = only_row(convert(tmp_path, encode="png"))
    assert row["image/format"] == [b"PNG"]
    after, before = (np.asarray(opened(r["image/encoded"][0])) for r in (row, best))
    np.testing.assert_array_equal(after, before)
    assert only_row(convert(tmp_path, resize=8))["image/format"] == [b"JPEG"]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
@pytest.mark.parametrize("encode", ["jpeg", "png"])
@pytest.mark.parametrize("resize", [None, 4])
def test_modes(tmp_path: Path, mode: str, encode: Any, resize: int | None) -> None:
    kind = "TIFF" if mode in ("CMYK", "I", "F") else "PNG"
    image = Image.fromarray(noise(8, 8, 3 if mode == "P" else 4))
    image = image.convert("L" if mode == "I;16" else mode)
    put(tmp_path / "in", f"a/x.{kind.lower()}", encoded(image.convert(mode), kind))
    alpha, deep = mode.endswith("A"), mode in ("I;16", "I", "F")
    if mode in ("I", "F") or (encode == "jpeg" and (alpha or deep)):
        with pytest.raises(tio.ConversionError, match=r"JPEG cannot store|converted to 8 bits"):
            convert(tmp_path, encode=encode, resize=resize)
        return
    row = only_row(convert(tmp_path, encode=encode, resize=resize))
    shown = opened(row["image/encoded"][0])
    assert shown.size == ((4, 4) if resize else (8, 8))
    assert row["image/format"] == [encode.upper().encode()]
    assert row["image/colorspace"] == [shown.mode.encode()]
    if resize is None and encode == "png":
        if mode == "CMYK":
            image = image.convert("RGB")
        np.testing.assert_array_equal(np.asarray(shown), np.asarray(image))


def test_transparent_colors(tmp_path: Path) -> None:
    """Palettes with alpha, and transparent colors."""
    for image in (Image.fromarray(noise(8, 8, 4)).convert("P"), Image.new("RGB", (8, 8), "red")):
        transparent: Any = {} if image.mode == "P" else {"transparency": (255, 0, 0)}
        put(tmp_path / "in", "a/x.png", encoded(image, "PNG", **transparent))
        with pytest.raises(tio.ConversionError, match="JPEG cannot store"):
            convert(tmp_path, encode="jpeg")
        row = only_row(convert(tmp_path, resize=4))
        assert row["image/colorspace"] == [b"RGBA"]
        shown = np.asarray(opened(row["image/encoded"][0]))
        assert shown[..., 3].min() < 255


@pytest.mark.parametrize("mode", ["F", "I"])
def test_more_bits_than_a_schema_supports(tmp_path: Path, mode: str) -> None:
    put(tmp_path / "in", "a/x.tif", encoded(Image.new(mode, (2, 2), 1), "TIFF"))
    with pytest.raises(tio.ConversionError, match=r"pixels are .*, which cannot be converted"):
        convert(tmp_path)
    put(tmp_path / "in", "a/x.tif", encoded(Image.new("I;16", (2, 2), 1), "TIFF"))
    assert count_read(convert(tmp_path)) == 1


def test_images_are_rotated_before_they_are_encoded(tmp_path: Path) -> None:
    pixels = smooth(20, 30)
    data = encoded(pixels, "PNG", exif=oriented(6))
    put(tmp_path / "in", "a/x.png", data)
    assert only_row(convert(tmp_path))["image/encoded"] == [data]
    row = only_row(convert(tmp_path, encode="png"))
    image = opened(row["image/encoded"][0])
    np.testing.assert_array_equal(np.asarray(image), np.rot90(pixels, -1))
    assert image.getexif().get(0x0112, 1) == 1
    assert (row["image/width"], row["image/height"]) == ([20], [30])


# ---- order and shards ----


def test_shuffle_and_jobs(tmp_path: Path) -> None:
    for i in range(200):
        put(tmp_path / "in", f"{i % 3}/{i:03}.jpg", encoded(noise(2, 2, seed=i), "JPEG"))
    plain = labels_of(convert(tmp_path))
    assert plain == sorted(plain, key=lambda row: (row[1], row[0]))
    orders = [labels_of(convert(tmp_path, shuffle=seed)) for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert all(sorted(order) == sorted(plain) != order for order in orders)
    done = convert(tmp_path, shuffle=0, num_shards=3, index=False)
    alone = contents(tmp_path / "out")
    assert convert(tmp_path, shuffle=0, num_shards=3, index=False, jobs=3).paths == done.paths
    assert contents(tmp_path / "out") == alone
    shards = [labels_of(replace(done, paths=(path,))) for path in done.paths]
    assert [orders[0][i::3] for i in range(3)] == shards


@pytest.mark.parametrize(
    "options",
    [
        {"resize": 0},
        {"resize": (1, 2, 3)},
        {"resize": (1, 0)},
        {"resize": (1,)},
        {"resize": 1.5},
        {"encode": "webp"},
        {"quality": 0},
        {"shuffle": 0.5},
        {"label_pattern": "("},
        {"label_pattern": "x"},
        {"label_pattern": "(x)", "labels": "y"},
        {"num_shards": 1, "max_bytes": 1},
        {"compression": "zip"},
        {"on_error": "ignore"},
        {"jobs": 0},
    ],
)
def test_arguments_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    put(tmp_path / "in", "a/x.jpg")
    with pytest.raises(ValueError, match=r"resize|encode|quality|seed|pattern|num_|compr|on_|jobs"):
        convert(tmp_path, **options)
    assert not (tmp_path / "out").exists() or not contents(tmp_path / "out")


def test_unknown_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unknown option 'shards'; the options are on_error, allow"):
        convert(tmp_path, shards=3)
