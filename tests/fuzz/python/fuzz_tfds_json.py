"""Metadata of TFDS: a dataset whose files lie in its directory, with a valid schema, or an error.

Input: dataset_info.json, features.json and names of classes, separated by lines ``---``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_parts, empty_folder
from torchrec_io.errors import SchemaError
from torchrec_io.tfds.directory import SplitInfo

_MOST_SHARDS = 1000  # paths of a million shards take seconds


def check(data: bytes) -> None:
    info, features, labels = cut_parts(data, 3)
    with empty_folder() as folder:
        home = folder / "set" / "1.0.0"
        home.mkdir(parents=True)
        (home / "dataset_info.json").write_bytes(info)
        (home / "features.json").write_bytes(features)
        (home / "label.labels.txt").write_bytes(labels)
        try:
            directory = tio.tfds.Directory(home)
        except SchemaError as error:
            assert str(home) in str(error), "the error does not name the file"
            return
        json.loads(info)  # no more than Python accepts
        for split in directory.splits.values():
            _check_split(split, str(home))
        _check_schema(directory, str(home))


def _check_split(split: SplitInfo, home: str) -> None:
    lengths = split.shard_lengths
    if lengths is not None and len(lengths) > _MOST_SHARDS:
        return
    try:
        paths = split.paths
    except SchemaError as error:
        assert home in str(error)
        return
    except FileNotFoundError:
        assert lengths is None
        return
    assert lengths is None or len(paths) == len(lengths)
    assert len(set(paths)) == len(paths), "two shards have the same path"
    for path in paths:
        assert os.path.realpath(path).startswith(home + os.sep), "a shard outside of the directory"


def _check_schema(directory: tio.tfds.Directory, home: str) -> None:
    try:
        schema = directory.schema
    except SchemaError as error:
        assert home in str(error), "the error does not name the file"
        assert len(str(error)) < 5000
        return
    assert tio.Schema.from_json(schema.to_json()) == schema


def seeds() -> Iterator[bytes]:
    golden = Path(__file__).parents[2] / "data" / "tfds"
    for info in sorted(golden.glob("**/dataset_info.json")):
        features = info.with_name("features.json")
        parts = [info, features, *info.parent.glob("*.labels.txt")][:3]
        texts = [part.read_bytes() if part.exists() else b"" for part in parts]
        yield b"\n---\n".join(text.strip() for text in texts)
