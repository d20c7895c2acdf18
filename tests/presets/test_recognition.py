"""Tests of recognizing the preset of some data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.conftest import Wild
from tests.presets import published
from tests.records.test_wild import MANIFEST
from tests.support.images import encoded, noise
from tests.support.inferring import example_of, sequence_of
from tests.support.pages import public_names
from tests.support.tfrecord import write_tfrecord


def recognize(path: Path, **options: Any) -> str:
    return str(tio.presets.recognize(path, **options))


def run(source: str) -> Any:
    """What a program leaves in ``schema``."""
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  # source that this package has made
    return space["schema"]


LARGE = "image=tio.ImageFeature(size=[6, 8])"
SMALL = "image=tio.ImageFeature(size=[5, 5])"
WRITTEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "imagenet": (published.write_imagenet, LARGE),
    "object_detection": (published.write_coco, LARGE),
    "object_detection with masks": (
        lambda folder: published.write_coco(folder, with_masks=True),
        "masks=True",
    ),
    "kaggle_images": (published.write_kaggle, SMALL),
    "kaggle_images for tests": (
        lambda folder: published.write_kaggle(folder, labelled=False),
        f"{SMALL}, label_key=None",
    ),
    "youtube8m_video": (published.write_youtube8m_video, ""),
    "youtube8m_video of 2017": (
        lambda folder: published.write_youtube8m_video(folder, "video_id"),
        'id_key="video_id"',
    ),
    "youtube8m_frames": (published.write_youtube8m_frames, ""),
    "youtube8m_frames of segments": (
        lambda folder: published.write_youtube8m_frames(folder, segments=True),
        "segments=True",
    ),
    "audioset": (published.write_audioset, ""),
    "nsynth": (published.write_nsynth, ""),
    "waymo_motion": (published.write_waymo, "roadgraph_points=20"),
    "waymo_motion for tests": (
        lambda folder: published.write_waymo(folder, 20, future=False),
        "roadgraph_points=20, future=False",
    ),
    "bert_pretraining": (
        published.write_bert,
        "max_seq_length=16, max_predictions_per_seq=3",
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_each_layout_is_recognised(tmp_path: Path, case: str) -> None:
    write, arguments = WRITTEN[case]
    path = write(tmp_path)
    name = case.partition(" ")[0]
    preset = tio.presets.recognize(path)
    assert preset is not None
    assert str(preset) == f"tio.presets.{name}({arguments})"
    assert preset.name == name
    assert run(preset.to_python()) == preset.schema
    # It reads the data.
    [batch] = tio.TFRecordDataset(path, preset.schema, batch_size=100, num_threads=1)
    assert list(batch) == list(preset.schema)


def test_every_preset_is_tried() -> None:
    names = {case.partition(" ")[0] for case in WRITTEN} | {"ranking_elwc"}
    others = {"Preset", "recognize", "OxeDataset", "OxePart", "oxe", "oxe_mixture", "oxe_names"}
    assert names == {*public_names(tio.presets)} - others  # the others are no schemas


def test_differences_are_reported(tmp_path: Path) -> None:
    preset = tio.presets.recognize(published.write_waymo(tmp_path / "waymo"))
    assert preset is not None
    assert preset.unread == (
        "state/difficulty_level",
        *(f"traffic_light_state/future/{name}" for name in ("id", "state", "valid", *"xyz")),
    )
    records = [example_of(**published.imagenet(0, **{"image/odd\n": [1]}))]
    preset = tio.presets.recognize(write_tfrecord(tmp_path / "x", records))
    assert preset is not None
    assert "image/class/text" in preset.absent
    assert "# not in the data: 'image/object/bbox/xmin'\n" in preset.to_python()
    assert "# not read: 'image/odd\\n'\n" in preset.to_python()
    assert preset.why.startswith("the records have 'image/encoded', 'image/class/label'")


def test_masks_of_every_kind(tmp_path: Path) -> None:
    kinds: dict[str, tuple[str, list[Any], str]] = {
        "as many in each record": ("bytes", published.masks(2), "masks=True"),
        "numbers": ("float", [0.0, 1.0] * 48, LARGE),  # as the API's NUMERICAL_MASKS
        "other bytes": ("bytes", [b"1", b"2"], LARGE),
    }
    for what, (kind, values, arguments) in kinds.items():
        features = {**published.coco(0, 2), "image/object/mask": (kind, values)}
        path = write_tfrecord(tmp_path / what, [example_of(**features)] * 2)
        assert recognize(path) == f"tio.presets.object_detection({arguments})"


def test_images_are_resized_as_in_an_inferred_schema(tmp_path: Path) -> None:
    sizes = [(6, 8), (6, 9), (7, 9)]
    images = [{"image/encoded": [encoded(noise(*size), "PNG")]} for size in sizes]
    records = [example_of(**published.imagenet(1, **image)) for image in images]
    preset = tio.presets.recognize(write_tfrecord(tmp_path / "x", records))
    assert preset is not None
    assert str(preset) == "tio.presets.imagenet(image=tio.ImageFeature(size=[6, 9]))"
    assert '# "image/encoded": 3 sizes, 6 to 9\n' in preset.to_python()
    assert run(preset.to_python()) == preset.schema


def test_videos_whose_labels_are_not_published(tmp_path: Path) -> None:
    means = {"mean_rgb": [0.5] * 1024, "mean_audio": [0.5] * 128}
    video = example_of(id=[b"x"], **means)
    preset = tio.presets.recognize(write_tfrecord(tmp_path / "video", [video]))
    assert preset is not None
    assert (str(preset), preset.absent) == ("tio.presets.youtube8m_video()", ("labels",))
    lists = {"rgb": [[bytes(1024)]], "audio": [[bytes(128)]]}
    frames = write_tfrecord(tmp_path / "frames", [sequence_of({"id": [b"x"]}, lists)])
    assert recognize(frames) == "tio.presets.youtube8m_frames()"
    ends = {"id": [b"x"], "segment_start_times": [5], "segment_end_times": [10]}
    segments = write_tfrecord(tmp_path / "segments", [sequence_of(ends, lists)])
    assert recognize(segments) == "tio.presets.youtube8m_frames(segments=True)"


# ---- lists ----


def test_lists_are_recognised(tmp_path: Path) -> None:
    preset = tio.presets.recognize(published.write_ranking(tmp_path))
    assert preset is not None
    assert preset.name == "ranking_elwc"
    words = tio.VarLenFeature("string")
    assert preset.schema == tio.presets.ranking_elwc(
        {"document_tokens": words}, {"query_tokens": words}
    )
    assert run(preset.to_python()) == preset.schema


def test_inferred_lists(tmp_path: Path) -> None:
    path = published.write_ranking(tmp_path)
    schema = tio.ranking.Schema.infer(path)
    assert schema.findings is not None
    relevance = schema.findings["relevance"]
    assert (relevance.present, relevance.records) == (3, 3)  # examples, not lists
    assert (
        relevance.why == "every example has 1 value; all values are 0 or 1, which "
        'the dtype "bool" can also read'
    )
    assert schema.findings["query_tokens"].counts == (1, 2)
    with pytest.raises(tio.SchemaError, match="do not look like lists of Examples"):
        tio.ranking.Schema.infer(published.write_bert(tmp_path))
    with pytest.raises(ValueError, match="max_records"):
        tio.ranking.Schema.infer(path, 0)


def test_images_and_mixed_features_in_lists(tmp_path: Path) -> None:
    image = encoded(noise(2, 2))
    records = [
        tio.ranking.encode({"id": 1, "x": 1}, [{"image": image, "mixed": 1, "id": 2}]),
        tio.ranking.encode({"x": 1}, [{"image": image, "mixed": b"", "id": 3}]),
    ]
    schema = tio.ranking.Schema.infer(write_tfrecord(tmp_path / "x", records))
    assert schema == tio.ranking.Schema(
        {"x": tio.FixedLenFeature([], "int64")},
        {"id": tio.FixedLenFeature([], "int64"), "image": tio.FixedLenFeature([], "string")},
    )


def test_numbered_features(tmp_path: Path) -> None:
    examples = [{"custom_features_2": 1.5, "label": 0.5}, {"custom_features_11": 2.5, "label": 1.0}]
    path = write_tfrecord(tmp_path / "x", [tio.ranking.encode(None, examples)])
    assert recognize(path) == ('tio.presets.ranking_elwc(11, label="label", label_dtype="float32")')
    examples[0]["custom_features_2"] = b"text"  # type: ignore[assignment]
    path = write_tfrecord(tmp_path / "y", [tio.ranking.encode(None, examples)])
    assert "ranking_elwc(\n    {" in recognize(path)


def test_examples_that_could_be_lists_are_not_recognized_as_lists(tmp_path: Path) -> None:
    # Keys that are themselves legal messages.
    key = tio.encode_example({"a": 1}).decode("latin-1")
    records = [tio.encode_example({key: 5, "": [1.5]}), b""]
    path = write_tfrecord(tmp_path / "x", records)
    assert recognize(path) == "None"
    assert len(tio.Schema.infer(path)) == 2
    assert recognize(write_tfrecord(tmp_path / "empty", [b"", b""])) == "None"
    assert recognize(write_tfrecord(tmp_path / "none", [])) == "None"


# ---- what is something else ----


def test_real_files_are_not_mistaken(wild: Wild) -> None:
    for entry in MANIFEST["files"]:
        path = wild.path / entry["path"]
        try:
            preset = tio.presets.recognize(path, max_records=30)
        except tio.TorchRecIOError:
            assert "tf_error" in entry, path
            continue
        is_list = entry["payload_kind"] == "ExampleListWithContext"
        assert (preset is not None) == is_list, path
        if preset is not None:
            assert preset.name == "ranking_elwc"
            sum(1 for _ in tio.TFRecordDataset(path, preset.schema, batch_size=100))


def test_near_misses(tmp_path: Path) -> None:
    whole = published.imagenet()
    near: dict[str, dict[str, Any]] = {
        "no image": {**whole, "image/encoded": [b"raw pixels"]},
        "a label of text": {**whole, "image/class/label": [b"cat"]},
        "two labels": {**whole, "image/class/label": [1, 2]},
        "boxes of whole numbers": {**whole, "image/object/bbox/xmin": [1]},
        "no synset": {k: v for k, v in whole.items() if k != "image/class/synset"},
        "objects without boxes": {**whole, "image/object/class/label": [1]},
        "a name of no such set": {"image": whole["image/encoded"], "class": [1], "more": [2]},
    }
    for number, (what, features) in enumerate(near.items()):
        path = write_tfrecord(tmp_path / f"{number}", [example_of(**features)])
        assert recognize(path) == "None", what


def test_all_records_have_to_agree(tmp_path: Path) -> None:
    good = example_of(**published.imagenet())
    features = {k: v for k, v in published.imagenet().items() if k != "image/class/label"}
    path = write_tfrecord(tmp_path / "x", [good, example_of(**features)])
    assert recognize(path) == "None"
    assert recognize(path, max_records=1).startswith("tio.presets.imagenet")


def test_embeddings_of_another_size_are_not_recognized(tmp_path: Path) -> None:
    context = {"id": [b"x"], "labels": [1]}
    for rgb, audio, found in ((1024, 128, True), (1024, 127, False), (512, 128, False)):
        lists = {"rgb": [[b"\0" * rgb]], "audio": [[b"\0" * audio]]}
        path = write_tfrecord(tmp_path / f"{rgb}-{audio}", [sequence_of(context, lists)])
        assert (recognize(path) != "None") == found
