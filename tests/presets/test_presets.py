"""Tests of reading data with presets, value by value; ``test_recognition.py`` reads the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.presets import published
from tests.presets.published import draw, frames_of
from tests.support.images import encoded, noise, opened
from tests.support.pages import public_names


def read(path: Path, schema: tio.Schema | tio.ranking.Schema) -> tio.Batch:
    """All records of a file."""
    [batch] = tio.TFRecordDataset(path, schema, batch_size=100, num_threads=1)
    return batch


def pixels(data: bytes) -> list[Any]:
    """An image as CHW."""
    values: list[Any] = np.asarray(opened(data).convert("RGB")).transpose(2, 0, 1).tolist()
    return values


def dequantized(data: bytes) -> torch.Tensor:
    """As YouTube-8M's readers compute it."""
    values = torch.frombuffer(bytearray(data), dtype=torch.uint8).float()
    return values * (4 / 255) + 4 / 512 - 2


def test_imagenet(tmp_path: Path) -> None:
    batch = read(published.write_imagenet(tmp_path), tio.presets.imagenet())
    assert batch["image/class/label"].tolist() == [1, 2]
    assert batch["image/class/text"].tolist() == [b"hare", b""]
    assert batch["image/class/synset"].tolist() == [b"n02323233"] * 2
    assert batch["image/filename"].tolist()[1] == b"ILSVRC2012_val_00000001.JPEG"
    assert batch["image/object/bbox/xmin"].tolist() == [[0.25], []]
    assert batch["image/object/bbox/label"].tolist() == [[1], []]
    assert (batch["image/height"].tolist(), batch["image/width"].tolist()) == ([6, 6], [8, 8])
    image = encoded(noise(6, 8, seed=1), "JPEG")
    assert batch["image/encoded"][1].tolist() == pixels(image)


def test_spec_of_images(tmp_path: Path) -> None:
    image = tio.ImageFeature(size=(4, 5), dtype="float32", layout="HWC")
    for path, preset in (
        (published.write_imagenet(tmp_path / "a"), tio.presets.imagenet(image)),
        (published.write_coco(tmp_path / "b"), tio.presets.object_detection(image)),
        (published.write_kaggle(tmp_path / "c"), tio.presets.kaggle_images(image)),
    ):
        [column] = [value for name, value in read(path, preset).items() if preset[name] is image]
        assert column.shape[1:] == (4, 5, 3)
        assert column.dtype == torch.float32


def test_object_detection(tmp_path: Path) -> None:
    path = published.write_coco(tmp_path, with_masks=True)
    batch = read(path, tio.presets.object_detection(masks=True))
    for row, end in enumerate(("ymin", "xmin", "ymax", "xmax")):
        expected = [draw(4, n, seed=i)[row].tolist() for i, n in enumerate((2, 0, 1))]
        assert batch[f"image/object/bbox/{end}"].tolist() == expected
    assert batch["image/object/class/text"].tolist() == [[b"cat"] * 2, [], [b"cat"]]
    assert batch["image/object/class/label"].tolist() == [[17, 17], [], [17]]
    assert batch["image/object/area"].lengths.tolist() == [2, 0, 1]
    assert batch["image/object/difficult"].tolist() == [[], [], []]
    assert batch["image/source_id"].tolist() == [b"0", b"1", b"2"]
    stored = [np.asarray(opened(data)).tolist() for data in published.masks(2)]
    assert [mask.tolist() for mask in batch["image/object/mask"][0][:, 0]] == stored
    assert [tuple(m.shape[:2]) for m in batch["image/object/mask"]] == [(2, 1), (0, 1), (1, 1)]
    assert "image/object/mask" not in tio.presets.object_detection()


def test_kaggle_images(tmp_path: Path) -> None:
    batch = read(published.write_kaggle(tmp_path), tio.presets.kaggle_images())
    assert batch["class"].tolist() == [0, 1, 2]
    assert batch["id"].tolist() == [b"0", b"1", b"2"]
    assert [image.shape for image in batch["image"]] == [(3, 5, 5)] * 3
    keys = tio.presets.kaggle_images(image_key="img", label_key="target", id_key=None)
    assert list(keys) == ["img", "target"]
    assert list(tio.presets.kaggle_images(label_key=None)) == ["image", "id"]


def test_youtube8m_frames(tmp_path: Path) -> None:
    path = published.write_youtube8m_frames(tmp_path, segments=True)
    batch = read(path, tio.presets.youtube8m_frames(segments=True))
    assert batch["rgb"].lengths.tolist() == [2, 3, 4]
    assert batch["rgb"].values.shape == (9, 1024)
    assert batch["audio"].values.dtype == torch.float32
    expected = torch.stack([dequantized(frame) for frame in frames_of(1, 128)])
    torch.testing.assert_close(batch["audio"][1], expected)
    assert batch["segment_labels"].tolist() == [[], [7], [7]]
    assert batch["segment_start_times"].tolist() == [[], [5], [5]]
    assert batch["segment_end_times"].tolist() == [[], [10], [10]]
    assert batch["segment_scores"].tolist() == [[], [1.0], [1.0]]
    stored = read(path, tio.presets.youtube8m_frames(dequantize=False))
    assert stored["rgb"].values.dtype == torch.uint8
    assert bytes(stored["rgb"][2][3].tolist()) == frames_of(2, 1024)[3]
    assert "segment_labels" not in stored


def test_audioset(tmp_path: Path) -> None:
    path = published.write_audioset(tmp_path)
    batch = read(path, tio.presets.audioset())
    assert batch["video_id"].tolist() == [b"-0RWZT-miFs"] * 2
    assert batch["start_time_seconds"].tolist() == [6.0, 6.0]
    assert batch["end_time_seconds"].tolist() == [16.0, 16.0]
    assert batch["labels"].tolist() == [[1, 522, 11]] * 2
    torch.testing.assert_close(batch["audio_embedding"][0][1], dequantized(frames_of(0, 128)[1]))
    stored = read(path, tio.presets.audioset(dequantize=False))
    assert bytes(stored["audio_embedding"][0][1].tolist()) == frames_of(0, 128)[1]


def test_waymo_motion(tmp_path: Path) -> None:
    path = published.write_waymo(tmp_path, 20)
    batch = read(path, tio.presets.waymo_motion(roadgraph_points=20))
    assert batch["roadgraph_samples/xyz"][1].tolist() == draw(20, 3, seed=1).tolist()
    assert batch["roadgraph_samples/id"][0].tolist() == [[i] for i in range(20)]
    assert batch["state/future/velocity_y"][0].tolist() == draw(128, 80).tolist()
    assert batch["state/current/valid"].shape == (2, 128, 1)
    assert batch["state/past/timestamp_micros"].dtype == torch.int64
    assert batch["traffic_light_state/past/z"][1].tolist() == draw(10, 16, seed=1).tolist()
    assert batch["scenario/id"].tolist() == [b"19a486cd29abd7a0", b"19a486cd29abd7a1"]
    test = read(
        published.write_waymo(tmp_path / "test", future=False),
        tio.presets.waymo_motion(roadgraph_points=20, future=False),
    )
    assert not any("future" in name for name in test)
    assert tio.presets.waymo_motion()["roadgraph_samples/dir"].shape == (30_000, 3)  # type: ignore[attr-defined]


def test_bert_pretraining(tmp_path: Path) -> None:
    path = published.write_bert(tmp_path)
    batch = read(path, tio.presets.bert_pretraining(16, max_predictions_per_seq=3))
    assert batch["input_ids"].tolist() == [list(range(i, i + 16)) for i in range(3)]
    assert batch["masked_lm_weights"].tolist() == [[1, 1, 0]] * 3
    assert batch["next_sentence_labels"].tolist() == [[0], [1], [0]]
    with pytest.raises(tio.DecodeError, match="input_ids"):
        read(path, tio.presets.bert_pretraining())


def test_ranking_elwc(tmp_path: Path) -> None:
    path = published.write_ranking(tmp_path)
    words = tio.VarLenFeature("string")
    preset = tio.presets.ranking_elwc({"document_tokens": words}, {"query_tokens": words})
    batch = read(path, preset)
    assert batch["relevance"].tolist() == [[], [0], [0, 1]]
    assert batch["document_tokens"].tolist() == [[], [[b"word"]], [[b"word"], [b"word"] * 2]]
    assert batch["query_tokens"].tolist() == [[b"this"], [b"this", b"query"], [b"this", b"query"]]


def test_numbered_features_of_documents() -> None:
    preset = tio.presets.ranking_elwc(3, label="utility", label_dtype="float32")
    record = tio.ranking.encode(
        None,
        [{"custom_features_1": 1.5, "utility": 1.0}, {"custom_features_3": 2.5, "utility": 0.0}],
    )
    batch = tio.ranking.parse([record], preset)
    assert batch["custom_features_1"].tolist() == [[1.5, 0.0]]
    assert batch["custom_features_2"].tolist() == [[0.0, 0.0]]
    assert batch["custom_features_3"].tolist() == [[0.0, 2.5]]
    assert batch["utility"].tolist() == [[1.0, 0.0]]
    assert list(tio.presets.ranking_elwc({"a": preset["utility"]}, label=None)) == ["a"]
    with pytest.raises(tio.SchemaError, match=r"must not contain the label.*'utility'"):
        tio.presets.ranking_elwc({"utility": preset["utility"]}, label="utility")
    wrong: Any
    for wrong in (0, -3, 2.5, True, None):
        with pytest.raises(ValueError, match=f"a dict or a positive integer, got {wrong}"):
            tio.presets.ranking_elwc(wrong)


def test_each_preset_names_its_source() -> None:
    others = {"Preset", "recognize", "OxeDataset", "OxePart", "oxe_names"}
    names = [name for name in public_names(tio.presets) if name not in others]
    assert len(names) == 12
    for name in names:
        assert "\n    Source: " in getattr(tio.presets, name).__doc__, name
