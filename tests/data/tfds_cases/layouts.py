"""Directories: splits, shards, configs, versions, names of shards, and old JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tests.data.tfds_cases.build import Golden, Record, as_dict, picture


def layouts_cases() -> Iterator[Golden]:
    """All datasets that are about their files."""
    features: dict[str, Any] = {"id": np.int64, "name": tfds.features.Text()}
    whole = as_dict(features)
    yield Golden(
        "splits",
        whole,
        {"train": rows(0, 23), "validation": rows(100, 7), "test": rows(200, 3)},
        shards=3,
    )
    yield Golden("one_split", whole, {"all-data_1": rows(0, 3)})
    more = as_dict({**features, "extra": np.float32})
    extra = [{**row, "extra": 0.5} for row in rows(50, 2)]
    yield Golden("configs", whole, {"train": rows(0, 2)}, config="small", version="1.0.0")
    yield Golden("configs", more, {"train": extra}, config="small", version="1.10.0")
    yield Golden("configs", whole, {"train": rows(9, 1)}, config="small", version="1.9.0")
    yield Golden("configs", whole, {"train": rows(20, 4)}, config="large", version="2.0.0")
    yield Golden(
        "template",
        whole,
        {"train": rows(0, 5), "test": rows(10, 2)},
        shards=2,
        template="{SPLIT}-of-{DATASET}-{SHARD_INDEX}.{FILEFORMAT}",
    )
    yield legacy("legacy")
    yield legacy("legacy_proto")


def rows(start: int, count: int) -> list[Record]:
    """Records that say which they are."""
    return [{"id": start + n, "name": f"row {start + n}"} for n in range(count)]


def legacy(name: str) -> Golden:
    """A dataset of many connectors, of which the JSON is respelled as it used to be."""
    label = tfds.features.ClassLabel
    features = {
        "image": tfds.features.Image(shape=(4, 4, 3), encoding_format="png"),
        "label": label(names=["a", "b"]),
        "score": np.float32,
        "text": tfds.features.Text(),
        "tokens": tfds.features.Sequence(np.int32),
        "fixed": tfds.features.Sequence(tfds.features.Text(), length=2),
        "objects": tfds.features.Sequence(
            {"bbox": tfds.features.BBoxFeature(), "label": label(num_classes=3)}
        ),
        "pair": tfds.features.Translation(languages=["de", "en"]),
        "tensor": tfds.features.Tensor(shape=(None, 2), dtype=np.int64),
        "audio": tfds.features.Audio(),
        "clip": tfds.features.Video(shape=(None, 4, 4, 3)),
    }
    records = [
        {
            "image": picture(n, 4, 4, 3),
            "label": "b",
            "score": n / 4,
            "text": "t" * n,
            "tokens": list(range(n)),
            "fixed": ["x", "y" * n],
            "objects": [{"bbox": tfds.features.BBox(0.0, 0.0, 0.5, 1.0), "label": 2}] * n,
            "pair": {"de": "ja", "en": "yes"},
            "tensor": np.arange(2 * n).reshape(n, 2),
            "audio": np.arange(n),
            "clip": picture(n, n, 4, 4, 3),
        }
        for n in range(3)
    ]
    return Golden(name, as_dict(features), {"train": records}, respelled=name)
