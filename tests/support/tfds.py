"""Small handmade TFDS directories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torchrec_io as tio

Json = dict[str, Any]
CORE = "tensorflow_datasets.core.features"


def connector(module: str, name: str, **content: Any) -> Json:
    """Return a feature as TFDS writes it: class name and fields of its proto."""
    return {"pythonClassName": f"{CORE}.{module}.{name}", **content}


def tensor(shape: Sequence[int], dtype: str, **more: Any) -> Json:
    """Return a Tensor feature. A dimension of -1 is unknown."""
    sizes = {"dimensions": [str(size) for size in shape]} if shape else {}
    content = {"shape": sizes, "dtype": dtype, "encoding": "none", **more}
    return connector("tensor_feature", "Tensor", tensor=content)


def text() -> Json:
    return connector("text_feature", "Text", text={})


def label(num_classes: int) -> Json:
    content = {"numClasses": str(num_classes)} if num_classes else {}
    return connector("class_label_feature", "ClassLabel", classLabel=content)


def image(*shape: int, dtype: str = "uint8") -> Json:
    content = {"shape": {"dimensions": [str(size) for size in shape]}, "dtype": dtype}
    return connector("image_feature", "Image", image=content)


def sequence(feature: Json, length: int = -1) -> Json:
    content: Json = {"feature": feature}
    if length:  # JSON of protos omits zeros
        content["length"] = str(length)
    return connector("sequence_feature", "Sequence", sequence=content)


def features_dict(**features: Json) -> Json:
    return connector("features_dict", "FeaturesDict", featuresDict={"features": features})


NUMBERS = features_dict(id=tensor([], "int64"), text=text())


def numbered(*numbers: int) -> list[bytes]:
    """Return records described by :data:`NUMBERS`."""
    return [tio.encode_example({"id": number, "text": f"text {number}"}) for number in numbers]


def write_shard(path: Path, records: Sequence[bytes]) -> int:
    """Write a shard. Return the size of its records in bytes."""
    with tio.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    return sum(map(len, records))


def write_tfds(
    folder: Path,
    splits: Mapping[str, Sequence[Sequence[bytes]]],
    structure: Json | None = NUMBERS,
    **info: Any,
) -> Path:
    """Write a dataset named "data" with the JSON files of TFDS."""
    folder.mkdir(parents=True, exist_ok=True)
    stated = []
    for name, shards in splits.items():
        sizes = [
            write_shard(shard_path(folder, name, number, len(shards)), records)
            for number, records in enumerate(shards)
        ]
        stated.append(
            {
                "name": name,
                "shardLengths": [str(len(records)) for records in shards],
                "numBytes": str(sum(sizes)),
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            }
        )
    info = {"name": "data", "version": "1.0.0", "splits": stated, **info}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    if structure is not None:
        (folder / "features.json").write_text(json.dumps(structure))
    return folder


def shard_path(folder: Path, split: str, number: int, count: int) -> Path:
    return folder / f"data-{split}.tfrecord-{number:05}-of-{count:05}"


def change_info(folder: Path, number: int = 0, **changes: Any) -> None:
    """Change members of a split in dataset_info.json. None removes a member."""
    path = folder / "dataset_info.json"
    info = json.loads(path.read_text())
    split = info["splits"][number] | changes
    info["splits"][number] = {name: value for name, value in split.items() if value is not None}
    path.write_text(json.dumps(info))
