"""What dataset_info.json says: name, splits, and how many records each shard has.

It is the proto ``tensorflow_datasets.DatasetInfo`` as JSON (``core/dataset_info.py`` of TFDS 4.9),
which has grown over the years: old files have fewer members.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..schema.bounded_json import shown
from .json_text import Node, read_json

INFO_FILE = "dataset_info.json"

_MOST_BYTES = 32 << 20  # takes ten times as much memory, and seconds
_MOST_COUNT = 2**62
_MOST_SHARDS = 1_000_000
_MOST_NESTED = 64


@dataclass(frozen=True)
class StatedSplit:
    """What is said of a split.

    Attributes:
        name: Such as "train".
        shard_lengths: Records in each shard; None if that is not said.
        num_shards: None if that is not said.
        num_examples: Records in all; None if that is not said.
        num_bytes: Of the records, or of the files: TFDS's writers differ. 0 if not known.
        template: What shards are named by; "" for TFDS's usual names.
    """

    name: str
    shard_lengths: tuple[int, ...] | None
    num_shards: int | None
    num_examples: int | None
    num_bytes: int
    template: str

    @property
    def is_blank(self) -> bool:
        """Whether nothing is said of its records: proto JSON leaves out what is 0 or empty."""
        said = (self.shard_lengths, self.num_shards, self.num_examples, self.num_bytes or None)
        return said == (None,) * 4


@dataclass(frozen=True)
class Info:
    """What is said of a dataset.

    Attributes:
        path: The file that says so.
        name: Of the dataset.
        config: "" for none.
        version: Such as "1.0.0".
        description: In words.
        file_format: Such as "tfrecord".
        other_formats: In which there are files, too.
        supervised_keys: Names of what goes into a model and what should come out, nested in tuples
            and dicts as they are there; None if that is not said.
        splits: By name.
        features: What features.json should say, where it is missing; None if this is missing, too.
    """

    path: str
    name: str
    config: str
    version: str
    description: str
    file_format: str
    other_formats: tuple[str, ...]
    supervised_keys: Any
    splits: Mapping[str, StatedSplit]
    features: Node | None

    def check_format(self) -> None:
        """Refuses files of another format than TFRecord.

        Raises:
            SchemaError: there are no others.
        """
        if "tfrecord" not in (self.file_format, *self.other_formats):
            node = Node(None, self.path, "fileFormat")
            raise node.error(
                f"the files are of the format {self.file_format!r}; only 'tfrecord' can be read "
                "(TFDS writes the dataset anew with: tfds convert_format)"
            )


def read_info(directory: str) -> Info:
    """What a dataset's directory says of itself.

    Raises:
        SchemaError: it says what cannot be.
        FileNotFoundError: it has no dataset_info.json.
    """
    node = read_json(os.path.join(directory, INFO_FILE), _MOST_BYTES)
    formats = node.get("alternative_file_formats")
    splits = node.get("splits")
    stated = [_split(split) for split in splits.items()] if splits is not None else []
    if any(split.shard_lengths for split in stated):
        # Where others were counted, a split of which nothing is said is empty.
        stated = [replace(split, shard_lengths=()) if split.is_blank else split for split in stated]
    by_name = {split.name: split for split in stated}
    if len(by_name) < len(stated):
        raise node.error(f"two splits have one name: {shown([split.name for split in stated])}")
    return Info(
        path=node.path,
        name=node.text("name"),
        config=node.text("config_name"),
        version=node.text("version"),
        description=node.text("description"),
        file_format=node.text("file_format") or "tfrecord",
        other_formats=tuple(f.as_text() for f in formats.items()) if formats is not None else (),
        supervised_keys=_supervised_keys(node.get("supervised_keys")),
        splits=by_name,
        features=node.get("features"),
    )


def _split(node: Node) -> StatedSplit:
    name = node.need("name").as_text()
    if not name:
        raise node.error("a split has no name")
    lengths = node.get("shard_lengths")
    found = () if lengths is None else _counts(lengths)
    if len(found) > _MOST_SHARDS:
        raise node.error(f"a split of more than {_MOST_SHARDS} shards")
    if sum(found) > _MOST_COUNT:
        raise node.error("no split has that many records")
    statistics = node.get("statistics")
    stated = None
    if statistics is not None:
        stated = statistics.whole("num_examples", 0, _MOST_COUNT)
    return StatedSplit(
        name=name,
        shard_lengths=found or None,
        num_shards=node.whole("num_shards", 0, _MOST_COUNT) or None,
        num_examples=stated,
        num_bytes=node.whole("num_bytes", 0, _MOST_COUNT, 0) or 0,
        template=node.text("filepath_template"),
    )


def _counts(node: Node) -> tuple[int, ...]:
    # Most are as they should be: thousands of them, and only the odd one needs a Node.
    counts = []
    for number, value in enumerate(node.value if isinstance(node.value, list) else node.items()):
        if type(value) is str and value.isascii() and value.isdigit() and len(value) < 19:
            counts.append(int(value))
        else:
            item = Node(value, node.path, f"{node.where}[{number}]")
            counts.append(item.as_whole(0, _MOST_COUNT))
    return tuple(counts)


def _supervised_keys(node: Node | None) -> Any:
    """As ``_supervised_keys_from_proto`` of TFDS has it."""
    if node is None:
        return None
    source, target = node.text("input"), node.text("output")
    if source and target:
        return source, target
    items = node.get("tuple")
    return None if items is None else _tuple(items, 0)


def _tuple(node: Node, depth: int) -> tuple[Any, ...]:
    items = node.get("items")
    return () if items is None else tuple(_nest(item, depth + 1) for item in items.items())


def _nest(node: Node, depth: int) -> Any:
    if depth > _MOST_NESTED:
        raise node.error(f"keys are nested more than {_MOST_NESTED} deep")
    items, members = node.get("tuple"), node.get("dict")
    if items is not None:
        return _tuple(items, depth)
    if members is None:
        return node.need("feature_key").as_text()
    inner = members.get("dict")
    if inner is None:
        return {}
    return {name: _nest(item, depth + 1) for name, item in sorted(inner.members())}
