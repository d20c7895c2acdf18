"""Builders of the golden TFDS directories: datasets and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

Record = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """A dataset for TFDS to write.

    Attributes:
        name: Of the dataset.
        features: Its connectors.
        splits: The records of each split, in order.
        shards: How many files each split gets.
        config: The name of its config; None has none.
        version: Its version.
        supervised_keys: As TFDS takes them.
        template: A shard name template to give it afterwards; None is TFDS's own.
        respelled: As what its JSON is respelled: ``legacy`` is that of TFDS before 4.5,
            ``legacy_proto`` that of the versions before the one it writes now.
        unread: Names of features that TFDS writes and neither of its readers reads rightly.
    """

    name: str
    features: tfds.features.FeaturesDict
    splits: Mapping[str, Sequence[Record]]
    shards: int = 1
    config: str | None = None
    version: str = "1.0.0"
    supervised_keys: tuple[str, str] | None = None
    template: str | None = None
    respelled: str | None = None
    unread: tuple[str, ...] = ()


def dataset(name: str, features: Any, records: Sequence[Record], **options: Any) -> Golden:
    """A dataset of one split, ``train``."""
    return Golden(name, as_dict(features), {"train": records}, **options)


def as_dict(features: Any) -> tfds.features.FeaturesDict:
    """A dict of connectors as a connector."""
    if isinstance(features, tfds.features.FeaturesDict):
        return features
    return tfds.features.FeaturesDict(features)


def picture(number: int, *shape: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    """An image or video of its own for each number, with values from all of the dtype's range."""
    values = np.arange(number, number + int(np.prod(shape)), dtype=np.uint64)
    mixed = values * 2654435761 % 1_000_003 % (1 << 8 * np.dtype(dtype).itemsize)
    made: np.ndarray[Any, Any] = mixed.astype(dtype).reshape(shape)
    return made
