"""Tests of reading features.json: what the golden directories do not have, and hostile JSON.

``tests/fuzz`` changes the files of TFDS.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfds import (
    connector,
    features_dict,
    image,
    label,
    sequence,
    tensor,
    text,
)
from torchrec_io._storage.location import Location
from torchrec_io.tfds import connectors as c
from torchrec_io.tfds.features_json import read_features


def read(folder: Path, features: Any) -> c.Connector:
    content = features if isinstance(features, str) else json.dumps(features)
    (folder / "features.json").write_text(content)
    found = read_features(Location.of(folder))
    assert found is not None
    return found


def read_one(folder: Path, feature: Any) -> c.Connector:
    found = read(folder, features_dict(x=feature))
    assert isinstance(found, c.FeaturesDict)
    return found.features["x"]


def refusal(folder: Path, features: Any) -> str:
    with pytest.raises(tio.SchemaError) as caught:
        read(folder, features)
    assert caught.value.path == str(folder / "features.json")
    return caught.value.reason


# ---- layouts ----


def test_what_the_golden_directories_leave_out(tmp_path: Path) -> None:
    assert read_one(tmp_path, label(0)) == c.ClassLabel()
    # What is 0 is left out of a proto's JSON.
    assert read_one(tmp_path, sequence(text(), 0)) == c.Sequence(feature=c.Text(), length=0)
    audio: dict[str, Any] = {"shape": {"dimensions": ["-1"]}, "dtype": "int16", "encoding": "NONE"}
    audio |= {"sampleRate": "16000", "fileFormat": "flac", "lazyDecode": True}
    assert read_one(tmp_path, connector("audio_feature", "Audio", audio=audio)) == c.Audio(
        shape=(None,), dtype="int16", sample_rate=16000, file_format="flac", lazy_decode=True
    )
    box = {"shape": {"dimensions": ["4"]}, "dtype": "float32"}
    found = read_one(tmp_path, connector("bounding_boxes", "BBoxFeature", boundingBox=box))
    assert found == c.BBox(bbox_format=None)
    box["bboxFormat"] = "XYWH"
    found = read_one(tmp_path, connector("bounding_boxes", "BBoxFeature", boundingBox=box))
    assert found == c.BBox(bbox_format="XYWH")


def test_descriptions_of_features_are_kept(tmp_path: Path) -> None:
    told = {**text(), "description": "A title.", "valueRange": "short"}
    found = read_one(tmp_path, told)
    assert (found.description, found.value_range) == ("A title.", "short")


def test_names_in_snake_case_and_numbers_that_are_numbers(tmp_path: Path) -> None:
    feature = {
        "python_class_name": "tensorflow_datasets.core.features.ClassLabel",
        "class_label": {"num_classes": 2},
    }
    assert read_one(tmp_path, feature) == c.ClassLabel(num_classes=2, names=("0", "1"))
    both = {**feature, "pythonClassName": "tensorflow_datasets.x.Text"}
    assert "'pythonClassName' and 'python_class_name' are two spellings of one name" in refusal(
        tmp_path, both
    )


def test_json_in_json(tmp_path: Path) -> None:
    content = {"json": json.dumps({"use_encoder": True})}
    found = read_one(tmp_path, connector("text_feature", "Text", jsonFeature=content))
    assert found == c.Text(shape=(None,), dtype="int64", has_encoder=True)


def test_an_unknown_connector(tmp_path: Path) -> None:
    own: dict[str, Any] = {"pythonClassName": "my_project.MyFeature", "jsonFeature": {"json": "{}"}}
    assert read_one(tmp_path, own) == c.Unknown(class_name="my_project.MyFeature")
    # Its name alone does not make it TFDS's.
    own["pythonClassName"] = "my.tensorflow_datasets.core.features.Text"
    assert isinstance(read_one(tmp_path, own), c.Unknown)
    found = read_one(tmp_path, sequence(own))
    [leaf] = found.leaves()
    assert leaf == ("", (found,), c.Unknown(class_name=own["pythonClassName"]))


# ---- names of classes ----


def test_names_of_classes(tmp_path: Path) -> None:
    features = features_dict(
        **{
            "label": label(2),
            "a/b": label(2),
            "deep": features_dict(inner=features_dict(kind=sequence(label(0)))),
        }
    )
    (tmp_path / "label.labels.txt").write_text(" zero \n\none\n")
    (tmp_path / "a.b.labels.txt").write_bytes(b"x\r\r\ny\x0c")
    (tmp_path / "deep-inner-kind.labels.txt").write_text("ü")
    found = read(tmp_path, features)
    names = {
        leaf.name: leaf.feature.names
        for leaf in found.leaves()
        if isinstance(leaf.feature, c.ClassLabel)
    }
    assert names == {"label": ("zero", "one"), "a/b": ("x", "y"), "deep/inner/kind": ("ü",)}


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret.labels.txt").write_text("a\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    for name in ("../secret", "\0", "x" * 5000, "..", "/etc/passwd"):
        found = read(inside, features_dict(**{name: label(0)}))
        assert [leaf.feature for leaf in found.leaves()] == [c.ClassLabel()]


def test_wrong_number_of_names(tmp_path: Path) -> None:
    features = features_dict(label=label(3))
    (tmp_path / "label.labels.txt").write_text("a\nb\n")
    assert "label.labels.txt must have a name for each of 3 classes, got 2" in refusal(
        tmp_path, features
    )
    (tmp_path / "label.labels.txt").write_bytes(b"\xff\n")
    with pytest.raises(tio.SchemaError, match="not UTF-8"):
        read(tmp_path, features)
    (tmp_path / "label.labels.txt").unlink()
    (tmp_path / "label.labels.txt").mkdir()
    with pytest.raises(tio.SchemaError, match="this is not a regular file"):
        read(tmp_path, features)


def test_more_classes_than_there_can_be(tmp_path: Path) -> None:
    assert "at most 1000000 classes" in refusal(tmp_path, features_dict(label=label(10**9)))
    (tmp_path / "label.labels.txt").write_text("a\n" * 1_000_001)
    assert "at most 1000000 classes" in refusal(tmp_path, features_dict(label=label(0)))
    many = features_dict(**{f"x{number}": label(400_000) for number in range(3)})
    assert "at most 1000000 classes" in refusal(tmp_path, many)


# ---- hostile JSON ----


def deep(levels: int) -> Any:
    feature = text()
    for _ in range(levels):
        feature = sequence(feature)
    return feature


def test_depth_is_bounded(tmp_path: Path) -> None:
    [leaf] = read(tmp_path, features_dict(x=deep(60))).leaves()
    assert (leaf.name, len(leaf.around), leaf.feature) == ("x", 60, c.Text())
    assert "nested more than 64 levels deep" in refusal(tmp_path, features_dict(x=deep(64)))
    assert "nested too deeply" in refusal(tmp_path, "[" * 100_000)
    assert "nested too deeply" in refusal(tmp_path, '{"a":' * 100_000)


HOSTILE: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "the text is not valid JSON"),
    "nothing": ("", "the text is not valid JSON"),
    "a list": ("[]", "must be an object"),
    "twice": ('{"type": 1, "a": 2, "type": 3}', "'type' is used twice"),
    "nan": ('{"type": NaN}', "NaN is not a JSON number"),
    "digits": ('{"type": ' + "1" * 5000 + "}", "a number has 5000 characters"),
    "no class": ({}, "'pythonClassName' is missing"),
    "class of another type": ({"pythonClassName": 3}, "must be a string, got 3"),
    "a surrogate": ('{"pythonClassName": "\\ud800"}', "must be valid Unicode text"),
    "two kinds": (connector("x", "Text", text={}, image={}), "only one kind of content"),
    "a dimension": (
        features_dict(x=tensor([-2], "int64")),
        "featuresDict.features.x.tensor.shape.dimensions[0]: must be an integer from -1",
    ),
    "a size": (
        features_dict(x=tensor([2**31], "int64")),
        "must be an integer from -1 to 2147483647",
    ),
    "sizes": (features_dict(x=tensor([2**31 - 1] * 2, "int64")), "do not fit in memory"),
    "dimensions": (features_dict(x=tensor([1] * 65, "int64")), "at most 64 dimensions, got 65"),
    "encoding": (features_dict(x=tensor([], "int8", encoding="lzma")), "none, bytes, zlib"),
    "strings": (
        features_dict(x=tensor([], "string", encoding="zlib")),
        "encoding of strings must be 'none'",
    ),
    "image": (features_dict(x=image(3, 3)), "(height, width, channels)"),
    "channels": (features_dict(x=image(3, 3, 5)), "(height, width, channels)"),
    "float image": (
        features_dict(x=image(3, 3, 3, dtype="float32")),
        "must have one channel, got 3",
    ),
    "image dtype": (features_dict(x=image(3, 3, 3, dtype="int64")), "uint8, uint16, float32"),
    "length": (features_dict(x=sequence(text(), -2)), "must be an integer from -1"),
    "a name": (
        features_dict(**{"\ud800": label(2)}),
        "featuresDict.features: must be valid Unicode text, got '\\ud800'",
    ),
    "no name": (features_dict(**{"": text()}), "the name of a feature must not be empty"),
    "languages": (
        connector("translation_feature", "Translation", translation={"languages": ["a", "a"]}),
        "languages must have different names",
    ),
    "inner JSON": (
        connector("x", "Text", jsonFeature={"json": "{"}),
        "jsonFeature.json: the text is",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_invalid_json_is_rejected_with_its_position(name: str, tmp_path: Path) -> None:
    features, reason = HOSTILE[name]
    assert reason in refusal(tmp_path, features)


def test_files_that_are_too_large_or_not_files(tmp_path: Path) -> None:
    with open(tmp_path / "features.json", "wb") as file:
        file.truncate((32 << 20) + 1)
    with pytest.raises(tio.SchemaError, match="more than 33554432 bytes"):
        read_features(Location.of(tmp_path))
    (tmp_path / "features.json").unlink()
    assert read_features(Location.of(tmp_path)) is None
    (tmp_path / "features.json").mkdir()
    with pytest.raises(tio.SchemaError, match="this is not a regular file"):
        read_features(Location.of(tmp_path))
