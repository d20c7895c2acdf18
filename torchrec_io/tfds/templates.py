"""Templates of the names of shards, by the rules of ``core/naming.py`` of TFDS 4.9."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from .._schema.bounded_json import shown
from .json_text import Node

_USUAL = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_VARIABLE = re.compile(r"\{([A-Z_]+)\}")
_LEAST_DIGITS = 5


@dataclass(frozen=True)
class ShardTemplate:
    """The template of the names of a split's shards.

    The variables DATASET, SPLIT, FILEFORMAT, SHARD_INDEX, NUM_SHARDS and SHARD_X_OF_Y, each in
    braces, are replaced by their values. Numbers have at least five digits. The text after a "%"
    describes how TFDS reads a file, and is not a part of its name.

    Attributes:
        text: Text with variables in braces; "" for TFDS's default names.
        dataset: Name of the dataset.
        split: Name of the split.
        node: JSON of the split, for errors.
    """

    text: str
    dataset: str
    split: str
    node: Node

    def paths(self, num_shards: int) -> list[str]:
        """Return the path of each shard, relative to the dataset's directory.

        Raises:
            SchemaError: If the template has unknown variables, leads out of the directory, or
                results in the same path for two shards.
        """
        paths = [self._path(shard, num_shards) for shard in range(num_shards)]
        if len(set(paths)) < len(paths):
            raise self.node.error(
                f"the template {shown(self.text)} must contain the number of the shard"
            )
        return paths

    def pattern(self) -> tuple[str, re.Pattern[str]]:
        """Return the directory of the shards, and a pattern of their file names.

        Raises:
            SchemaError: If the template is not valid; see :meth:`paths`.
        """
        folder = os.path.dirname(self._path(0, 1))
        found = self._fill(r"(\d{5,})", r"\d{5,}", re.escape)
        return folder, re.compile(found.rpartition("/")[2])

    def _path(self, shard: int, num_shards: int) -> str:
        digits = max(_LEAST_DIGITS, len(str(num_shards)))
        index, count = f"{shard:0{digits}}", f"{num_shards:0{digits}}"
        path = self._fill(index, count)
        parts = path.split("/")
        if "\0" in path or "\\" in path or path.startswith("/") or not parts[-1]:
            raise self.node.error(f"{shown(path)} is not a valid path in the dataset's directory")
        if "." in parts or ".." in parts:
            raise self.node.error(f"{shown(path)} leads out of the dataset's directory")
        return path

    def _fill(self, index: str, count: str, escape: Callable[[str], str] = str) -> str:
        """Return the template with values in place of variables.

        ``str.format`` is not used, because it would evaluate expressions.

        Args:
            index: Number of the shard.
            count: Number of shards.
            escape: Function that is applied to all other text.
        """
        values = {
            "DATASET": escape(self.dataset),
            "SPLIT": escape(self.split),
            "FILEFORMAT": "tfrecord",
            "SHARD_INDEX": index,
            "NUM_SHARDS": count,
            "SHARD_X_OF_Y": f"{index}-of-{count}",
        }
        text = self.text or _USUAL
        text = text[: text.rfind("%")] if "%" in text else text
        parts = _VARIABLE.split(text)  # text and variables in turn
        for number, part in enumerate(parts):
            if number % 2 == 0 and ("{" in part or "}" in part):
                raise self.node.error(
                    f"the template {shown(text)} has a brace that does not belong to a variable"
                )
            if number % 2 and part not in values:
                raise self.node.error(f"the template {shown(text)} has an unknown variable, {part}")
        return "".join(
            values[part] if number % 2 else escape(part) for number, part in enumerate(parts)
        )
