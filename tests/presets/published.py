"""Small datasets in the published layouts of the presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.example_lists import ExampleListWithContext
from tests.support.images import encoded, noise
from tests.support.inferring import example_of, sequence_of
from tests.support.tfrecord import write_tfrecord


def draw(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng([seed, *shape]).random(shape, np.float32)


def draw_bytes(count: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).tobytes()


def write(folder: Path, name: str, records: list[bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    return write_tfrecord(folder / name, records)


# ---- images ----


def imagenet(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "image/height": [6],
        "image/width": [8],
        "image/colorspace": [b"RGB"],
        "image/channels": [3],
        "image/class/label": [number + 1],
        "image/class/synset": [b"n02323233"],
        "image/format": [b"JPEG"],
        "image/filename": [b"ILSVRC2012_val_%08d.JPEG" % number],
        "image/encoded": [encoded(noise(6, 8, seed=number), "JPEG")],
        **more,
    }


def write_imagenet(folder: Path) -> Path:
    boxes: dict[str, Any] = {
        f"image/object/bbox/{end}": [0.25] for end in ("xmin", "xmax", "ymin", "ymax")
    }
    boxes |= {"image/object/bbox/label": [1], "image/class/text": [b"hare"]}
    records = [example_of(**imagenet(0, **boxes)), example_of(**imagenet(1))]
    return write(folder, "validation-00000-of-00001", records)


def coco(number: int, objects: int) -> dict[str, Any]:
    boxes = draw(4, objects, seed=number)
    ends = ("ymin", "xmin", "ymax", "xmax")
    return {
        "image/height": [6],
        "image/width": [8],
        "image/filename": [b"%d.jpg" % number],
        "image/source_id": [b"%d" % number],
        "image/key/sha256": [b"ab" * 32],
        "image/encoded": [encoded(noise(6, 8, seed=number), "JPEG")],
        "image/format": [b"jpeg"],
        **{
            f"image/object/bbox/{e}": ("float", row.tolist())
            for e, row in zip(ends, boxes, strict=True)
        },
        "image/object/class/text": ("bytes", [b"cat"] * objects),
        "image/object/class/label": ("int64", [17] * objects),
        "image/object/is_crowd": ("int64", [0] * objects),
        "image/object/area": ("float", [2.5] * objects),
    }


def masks(count: int) -> list[bytes]:
    return [encoded(noise(6, 8, 1, seed=i), "PNG") for i in range(count)]


def write_coco(folder: Path, *, with_masks: bool = False) -> Path:
    records = []
    for number, objects in enumerate((2, 0, 1)):
        features = coco(number, objects)
        if with_masks:
            features["image/object/mask"] = ("bytes", masks(objects))
        records.append(example_of(**features))
    return write(folder, "coco.record-00000-of-00001", records)


def write_kaggle(folder: Path, *, labelled: bool = True) -> Path:
    records = []
    for number in range(3):
        features = {
            "image": [encoded(noise(5, 5, seed=number), "JPEG")],
            "id": [b"%x" % number],
        }
        records.append(example_of(**features, **({"class": [number]} if labelled else {})))
    return write(folder, "00-224x224-3.tfrec", records)


# ---- videos ----


def write_youtube8m_video(folder: Path, id_key: str = "id") -> Path:
    records = [
        example_of(
            **{
                id_key: [b"id%d" % i],
                "labels": list(range(i + 1)),
                "mean_rgb": draw(1024, seed=i).tolist(),
                "mean_audio": draw(128, seed=i).tolist(),
            }
        )
        for i in range(3)
    ]
    return write(folder, "train0093.tfrecord", records)


def frames_of(video: int, size: int) -> list[bytes]:
    return [draw_bytes(size, 1000 * video + second) for second in range(2 + video)]


def write_youtube8m_frames(folder: Path, id_key: str = "id", *, segments: bool = False) -> Path:
    records = []
    for i in range(3):
        context: dict[str, Any] = {id_key: [b"id%d" % i], "labels": [4, 5]}
        if segments and i:
            context |= {
                "segment_start_times": [5],
                "segment_end_times": [10],
                "segment_labels": [7],
                "segment_scores": [1.0],
            }
        lists = {
            name: [[f] for f in frames_of(i, size)]
            for name, size in (("rgb", 1024), ("audio", 128))
        }
        records.append(sequence_of(context, lists))
    return write(folder, "train00.tfrecord", records)


def write_audioset(folder: Path) -> Path:
    records = [
        sequence_of(
            {
                "video_id": [b"-0RWZT-miFs"],
                "start_time_seconds": [6.0],
                "end_time_seconds": [16.0],
                "labels": [1, 522, 11],
            },
            {"audio_embedding": [[frame] for frame in frames_of(i, 128)]},
        )
        for i in range(2)
    ]
    return write(folder, "5v.tfrecord", records)


# ---- sound, driving, text, scenes ----


def write_nsynth(folder: Path) -> Path:
    records = [
        example_of(
            note=[i],
            note_str=[b"bass_synthetic_033-022-050"],
            instrument=[33],
            instrument_str=[b"bass_synthetic_033"],
            pitch=[22],
            velocity=[50],
            sample_rate=[16000],
            audio=draw(64000, seed=i).tolist(),
            qualities=[0, 1] * 5,
            qualities_str=[b"dark", b"fast_decay"][: i + 1],
            instrument_family=[0],
            instrument_family_str=[b"bass"],
            instrument_source=[2],
            instrument_source_str=[b"synthetic"],
        )
        for i in range(2)
    ]
    return write(folder, "nsynth-test.tfrecord", records)


STATE_FLOATS = (
    *("x", "y", "z", "bbox_yaw", "length", "width", "height"),
    *("vel_yaw", "velocity_x", "velocity_y"),
)


def waymo(number: int, points: int, whens: dict[str, int]) -> dict[str, Any]:
    def floats(*shape: int) -> list[float]:
        values: list[float] = draw(*shape, seed=number).ravel().tolist()
        return values

    features: dict[str, Any] = {"scenario/id": [b"19a486cd29abd7a%d" % number]}
    for name in ("xyz", "dir"):
        features[f"roadgraph_samples/{name}"] = floats(points, 3)
    for name in ("id", "type", "valid"):
        features[f"roadgraph_samples/{name}"] = list(range(points))
    features |= {"state/id": floats(128), "state/type": floats(128)}
    for name in ("is_sdc", "tracks_to_predict", "objects_of_interest", "difficulty_level"):
        features[f"state/{name}"] = [0] * 128
    for when, steps in whens.items():
        for name in STATE_FLOATS:
            features[f"state/{when}/{name}"] = floats(128, steps)
        for name in ("valid", "timestamp_micros"):
            features[f"state/{when}/{name}"] = [steps] * 128 * steps
        for name in ("state", "valid", "id"):
            features[f"traffic_light_state/{when}/{name}"] = [1] * 16 * steps
        for name in "xyz":
            features[f"traffic_light_state/{when}/{name}"] = floats(steps, 16)
    return features


def write_waymo(folder: Path, points: int = 20, *, future: bool = True) -> Path:
    whens = {"past": 10, "current": 1} | ({"future": 80} if future else {})
    records = [example_of(**waymo(i, points, whens)) for i in range(2)]
    return write(folder, "training_tfexample.tfrecord-00000-of-01000", records)


def write_bert(folder: Path) -> Path:
    records = [
        example_of(
            input_ids=list(range(i, i + 16)),
            input_mask=[1] * 16,
            segment_ids=[0] * 16,
            masked_lm_positions=[3, 5, 0],
            masked_lm_ids=[103, 104, 0],
            masked_lm_weights=[1.0, 1.0, 0.0],
            next_sentence_labels=[i % 2],
        )
        for i in range(3)
    ]
    return write(folder, "wiki.tfrecord", records)


# ---- ranking ----


def write_ranking(folder: Path) -> Path:
    records = []
    for i in range(3):
        message = ExampleListWithContext()
        message.context.ParseFromString(example_of(query_tokens=[b"this", b"query"][: i + 1]))
        for k in range(i):
            document = example_of(document_tokens=[b"word"] * (k + 1), relevance=[k])
            message.examples.add().ParseFromString(document)
        records.append(message.SerializeToString())
    return write(folder, "elwc.tfrecord", records)
