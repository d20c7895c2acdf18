"""Names of shards, as ``core/naming.py`` of TFDS 4.9 makes them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..schema.bounded_json import shown
from .json_text import Node

_USUAL = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_VARIABLE = re.compile(r"\{([A-Z_]+)\}")
_LEAST_DIGITS = 5


@dataclass(frozen=True)
class ShardTemplate:
    """What the shards of a split are named by.

    The variables DATASET, SPLIT, FILEFORMAT, SHARD_INDEX, NUM_SHARDS and SHARD_X_OF_Y are filled
    in, each in braces; numbers have five digits, or more where there are that many shards. What
    stands behind a "%" says how a file is to be read and is no part of its name.

    Attributes:
        text: With variables in braces; "" for TFDS's usual names.
        dataset: The dataset's name.
        split: The split's.
        node: Of the split, for errors.
    """

    text: str
    dataset: str
    split: str
    node: Node

    def paths(self, num_shards: int) -> list[str]:
        """The paths of all shards, in the dataset's directory.

        Raises:
            SchemaError: the template has other variables, leads out of the directory, or gives two
                shards one path.
        """
        paths = [self._path(shard, num_shards) for shard in range(num_shards)]
        if len(set(paths)) < len(paths):
            raise self.node.error(f"the template {shown(self.text)} gives all shards one name")
        return paths

    def pattern(self) -> tuple[str, re.Pattern[str]]:
        """The folder of shards, and what their names in it look like.

        Raises:
            SchemaError: as for :meth:`paths`.
        """
        folder = os.path.dirname(self._path(0, 1))
        found = self._filled(
            {
                "DATASET": re.escape(self.dataset),
                "SPLIT": re.escape(self.split),
                "FILEFORMAT": "tfrecord",
                "SHARD_INDEX": r"(\d{5,})",
                "NUM_SHARDS": r"\d{5,}",
                "SHARD_X_OF_Y": r"(\d{5,})-of-\d{5,}",
            },
            re.escape,
        )
        return folder, re.compile(found.rpartition("/")[2])

    def _path(self, shard: int, num_shards: int) -> str:
        digits = max(_LEAST_DIGITS, len(str(num_shards)))
        index, count = f"{shard:0{digits}}", f"{num_shards:0{digits}}"
        path = self._filled(
            {
                "DATASET": self.dataset,
                "SPLIT": self.split,
                "FILEFORMAT": "tfrecord",
                "SHARD_INDEX": index,
                "NUM_SHARDS": count,
                "SHARD_X_OF_Y": f"{index}-of-{count}",
            }
        )
        parts = path.split("/")
        if "\0" in path or "\\" in path or path.startswith("/") or not parts[-1]:
            raise self.node.error(f"{shown(path)} is no path in the dataset's directory")
        if "." in parts or ".." in parts:
            raise self.node.error(f"{shown(path)} leads out of the dataset's directory")
        return path

    def _filled(self, values: dict[str, str], between: Callable[[str], str] = str) -> str:
        """The template with values in place of its variables; not ``str.format``, which can more.

        Args:
            values: Of all variables.
            between: What becomes of the text between them.
        """
        text = self.text or _USUAL
        text = text[: text.rfind("%")] if "%" in text else text
        parts = _VARIABLE.split(text)  # text and variables in turn
        for number, part in enumerate(parts):
            if number % 2 == 0 and ("{" in part or "}" in part):
                raise self.node.error(f"braces of no variable in the template {shown(text)}")
            if number % 2 and part not in values:
                raise self.node.error(f"unknown variable {part} in the template {shown(text)}")
        return "".join(
            values[part] if number % 2 else between(part) for number, part in enumerate(parts)
        )
