"""Reader of dataset_info.json: name and splits of a dataset, and the lengths of its shards.

The file is the proto ``tensorflow_datasets.DatasetInfo`` as JSON (``core/dataset_info.py`` of TFDS
4.9). Files of older versions have fewer members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._schema.bounded_json import shown
from .._storage.location import Location
from ..checks import MOST
from .json_text import Node, read_json

INFO_FILE = "dataset_info.json"

_MOST_BYTES = 32 << 20  # parsing takes ten times as much memory, and seconds
_MOST_SHARDS = 1_000_000
_MOST_NESTED = 64


@dataclass(frozen=True)
class StatedSplit:
    """A split, as dataset_info.json describes it.

    Attributes:
        name: Name, such as "train".
        shard_lengths: Number of records of each shard; None if the file does not say.
        num_shards: Number of shards; None if the file does not say.
        num_examples: Number of records; None if the file does not say.
        num_bytes: Size of all records or of all files, in bytes, because TFDS's writers differ; 0
            if it is not known.
        template: Template of the names of shards; "" for TFDS's default names.
    """

    name: str
    shard_lengths: tuple[int, ...] | None
    num_shards: int | None
    num_examples: int | None
    num_bytes: int
    template: str

    @property
    def is_blank(self) -> bool:
        """True if the file says nothing about records. Proto JSON omits zeros and empty lists."""
        facts = (self.shard_lengths, self.num_shards, self.num_examples, self.num_bytes or None)
        return facts == (None,) * 4


@dataclass(frozen=True)
class DatasetInfo:
    """The content of dataset_info.json.

    Attributes:
        path: Path of the file.
        name: Name of the dataset.
        config: Name of the config; "" for none.
        version: Version, such as "1.0.0".
        description: Description of the dataset.
        supervised_keys: Names of the inputs and targets of a model, nested in tuples and dicts as
            in the file; None if the file does not say.
        splits: Splits by name.
        features: Content of features.json, for directories without that file; None if it is
            missing here, too.
    """

    path: str
    name: str
    config: str
    version: str
    description: str
    supervised_keys: Any
    splits: Mapping[str, StatedSplit]
    features: Node | None


def read_info(directory: Location) -> DatasetInfo:
    """Read the dataset_info.json of a directory.

    Raises:
        SchemaError: If the file is not valid, or if the files do not exist in TFRecord format.
        FileNotFoundError: If the directory has no dataset_info.json.
    """
    node = read_json(directory.child(INFO_FILE), _MOST_BYTES)
    _check_format(node)
    splits = node.get("splits")
    stated = [_parse_split(split) for split in splits.items()] if splits is not None else []
    if any(split.shard_lengths for split in stated):
        # If the file counts the records of other splits, a split without counts is empty.
        stated = [replace(split, shard_lengths=()) if split.is_blank else split for split in stated]
    by_name = {split.name: split for split in stated}
    if len(by_name) < len(stated):
        raise node.error(
            f"splits must have different names, got {shown([split.name for split in stated])}"
        )
    return DatasetInfo(
        path=node.path,
        name=node.text("name"),
        config=node.text("config_name"),
        version=node.text("version"),
        description=node.text("description"),
        supervised_keys=_parse_supervised_keys(node.get("supervised_keys")),
        splits=by_name,
        features=node.get("features"),
    )


def _check_format(node: Node) -> None:
    own = node.text("file_format") or "tfrecord"
    others = node.get("alternative_file_formats")
    formats = [own] if others is None else [own, *(other.as_text() for other in others.items())]
    if "tfrecord" not in formats:
        raise Node(None, node.path, "fileFormat").error(
            f"the format must be 'tfrecord', got {own!r}: convert the dataset with "
            "'tfds convert_format'"
        )


def _parse_split(node: Node) -> StatedSplit:
    name = node.need("name").as_text()
    if not name:
        raise node.error("the name of a split must not be empty")
    lengths = node.get("shard_lengths")
    found = () if lengths is None else _parse_counts(lengths)
    if len(found) > _MOST_SHARDS:
        raise node.error(f"a split must have at most {_MOST_SHARDS} shards, got {len(found)}")
    if sum(found) > MOST:
        raise node.error(f"a split must have at most {MOST} records, got {sum(found)}")
    statistics = node.get("statistics") or Node({}, node.path, "")
    return StatedSplit(
        name=name,
        shard_lengths=found or None,
        num_shards=node.whole("num_shards", 0, MOST) or None,
        num_examples=statistics.whole("num_examples", 0, MOST),
        num_bytes=node.whole("num_bytes", 0, MOST, 0) or 0,
        template=node.text("filepath_template"),
    )


def _parse_counts(node: Node) -> tuple[int, ...]:
    # There may be thousands of counts. A Node is slow, so only unusual values get one.
    counts = []
    for number, value in enumerate(node.value if isinstance(node.value, list) else node.items()):
        if type(value) is str and value.isascii() and value.isdigit() and len(value) < 19:
            counts.append(int(value))
        else:
            item = Node(value, node.path, f"{node.where}[{number}]")
            counts.append(item.as_whole(0, MOST))
    return tuple(counts)


def _parse_supervised_keys(node: Node | None) -> Any:
    """Return the keys like ``_supervised_keys_from_proto`` of TFDS."""
    if node is None:
        return None
    source, target = node.text("input"), node.text("output")
    if source and target:
        return source, target
    items = node.get("tuple")
    return None if items is None else _parse_tuple(items, 0)


def _parse_tuple(node: Node, depth: int) -> tuple[Any, ...]:
    items = node.get("items")
    return () if items is None else tuple(_parse_keys(item, depth + 1) for item in items.items())


def _parse_keys(node: Node, depth: int) -> Any:
    if depth > _MOST_NESTED:
        raise node.error(f"keys must not be nested more than {_MOST_NESTED} levels deep")
    items, members = node.get("tuple"), node.get("dict")
    if items is not None:
        return _parse_tuple(items, depth)
    if members is None:
        return node.need("feature_key").as_text()
    inner = members.get("dict")
    if inner is None:
        return {}
    return {name: _parse_keys(item, depth + 1) for name, item in sorted(inner.members())}
