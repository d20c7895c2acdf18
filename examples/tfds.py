"""A TFDS directory read without TFDS: images with boxes, split as TFDS splits.

    python examples/tfds.py [FOLDER]

FOLDER is where a small directory is written, in the layout of tensorflow-datasets; whoever has one
of its own calls ``TFRecordDataset.from_tfds`` with that.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import torchrec_io as tio

SIZE = 32
CLASSES = ["box", "disc"]
SHARDS = {"train": [20, 20, 20], "test": [15]}  # records of each
# What an empty list would hold.
KINDS_OF_LISTS = {"objects/bbox": "float32", "objects/label": "int64"}


# ---- a directory, as TFDS writes them ----


def record(rng: np.random.Generator) -> dict[str, Any]:
    """An image with some boxes and discs on it; TFDS joins the names of nested features by "/"."""
    image = Image.new("RGB", (SIZE, SIZE), (20, 30, 40))
    boxes, labels = [], []
    for _ in range(int(rng.integers(0, 4))):
        label = int(rng.integers(len(CLASSES)))
        top, left = rng.integers(0, SIZE - 10, 2).tolist()
        bottom, right = top + 9, left + 9
        draw = ImageDraw.Draw(image)
        shape = (draw.rectangle, draw.ellipse)[label]
        shape((left, top, right, bottom), fill=(250, 200, 40))
        boxes += [top / SIZE, left / SIZE, (bottom + 1) / SIZE, (right + 1) / SIZE]
        labels.append(label)
    png = io.BytesIO()
    image.save(png, "PNG")
    return {"image": png.getvalue(), "objects/bbox": boxes, "objects/label": labels}


def connector(module: str, name: str, **content: Any) -> dict[str, Any]:
    """A feature as ``features.json`` has it."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{module}.{name}", **content}


def write_json(folder: Path) -> None:
    """Writes what TFDS writes beside the shards."""

    def features(**of: Any) -> dict[str, Any]:
        return connector("features_dict", "FeaturesDict", featuresDict={"features": of})

    image = {"shape": {"dimensions": [str(SIZE), str(SIZE), "3"]}, "dtype": "uint8"}
    objects = features(
        bbox=connector("bounding_boxes", "BBoxFeature", boundingBox={"bboxFormat": "REL_YXYX"}),
        label=connector(
            "class_label_feature", "ClassLabel", classLabel={"numClasses": str(len(CLASSES))}
        ),
    )
    whole = features(
        image=connector("image_feature", "Image", image=image),
        objects=connector(
            "sequence_feature", "Sequence", sequence={"feature": objects, "length": "-1"}
        ),
    )
    (folder / "features.json").write_text(json.dumps(whole))
    (folder / "objects-label.labels.txt").write_text("\n".join(CLASSES))
    splits = [
        {"name": name, "shardLengths": list(map(str, lengths))} for name, lengths in SHARDS.items()
    ]
    info = {"name": "shapes", "version": "1.0.0", "fileFormat": "tfrecord", "splits": splits}
    (folder / "dataset_info.json").write_text(json.dumps(info))


def write(folder: Path) -> None:
    """Writes all shards and both JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for split, lengths in SHARDS.items():
        for number, length in enumerate(lengths):
            name = f"shapes-{split}.tfrecord-{number:05}-of-{len(lengths):05}"
            with tio.TFRecordWriter(folder / name, kinds=KINDS_OF_LISTS, index=True) as writer:
                for _ in range(length):
                    writer.write(record(rng))
    write_json(folder)


# ---- what a program has to do ----


def main(folder: Path) -> None:
    """Writes a directory, and reads it."""
    write(folder / "shapes" / "1.0.0")

    directory = tio.tfds.Directory(folder / "shapes")
    for name, split in directory.splits.items():
        print(f"{name}: {split.num_examples} records in {len(split.paths)} files")
    label: Any = directory.schema["objects/label"]
    names = label.names
    print(f"labels: {', '.join(names)}")

    # TFDS's own arithmetic: the same records as tfds.load(..., split=...) gives.
    train = tio.TFRecordDataset.from_tfds(
        folder / "shapes", "train[:80%]", batch_size=16, shuffle=True, seed=1
    )
    validation = tio.TFRecordDataset.from_tfds(folder / "shapes", "train[80%:]+test")
    print(f"{train.num_records} records to train with, {validation.num_records} to validate")

    for batch in tio.make_loader(train):
        # Nested as in TFDS; boxes and labels are Ragged, for each image has its own number of them.
        images, objects = batch["image"], batch["objects"]
        assert images.shape == (16, SIZE, SIZE, 3)
        assert objects["bbox"].values.shape == (len(objects["label"].values), 4)
    sample = next(sample for sample in validation if len(sample["objects"]["label"]))
    for box, label in zip(sample["objects"]["bbox"], sample["objects"]["label"], strict=True):
        top, left, bottom, right = (box * SIZE).int().tolist()
        print(f"a {names[label]} at {top}, {left}")
        assert sample["image"][(top + bottom) // 2, (left + right) // 2].tolist() == [250, 200, 40]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
