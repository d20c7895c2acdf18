"""The names of classes, which TFDS keeps in a file beside features.json."""

from __future__ import annotations

import errno
import os
import re
from itertools import islice

from .json_text import Node, read_text

_MOST_BYTES = 64 << 20
_MOST_CLASSES = 1_000_000
_LINE = re.compile(r"[^\r\n]+")  # Python's text files end lines at either
# The path is too long, or nothing on the way to it is a folder: there is no such file either.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL)


class Labels:
    """Finds names of classes in a dataset's directory, a million in all at most.

    Args:
        directory: Of the dataset.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._left = _MOST_CLASSES

    def find(
        self, file_name: str | None, num_classes: int | None, node: Node
    ) -> tuple[str, ...] | None:
        """The names of a feature's classes.

        Without a file these are "0", "1" and so on, as ``ClassLabel.names`` of TFDS has it.

        Args:
            file_name: What the feature's files are called by.
            num_classes: If known.
            node: Of the feature.

        Returns:
            None if neither names nor their number are known.

        Raises:
            SchemaError: the file holds another number of names, or there are too many.
        """
        names = self._read(f"{file_name}.labels.txt")
        if names is not None and num_classes not in (None, len(names)):
            raise node.error(
                f"there are {num_classes} classes, but {len(names)} names in {file_name}.labels.txt"
            )
        count = len(names) if names is not None else num_classes
        if count is None:
            return None
        self._left -= count
        if self._left < 0:
            raise node.error(f"the dataset has more than {_MOST_CLASSES} classes")
        return tuple(map(str, range(count))) if names is None else names

    def _read(self, name: str) -> tuple[str, ...] | None:
        """The lines of a file that hold something, as ``_load_names_from_file`` of TFDS has it.

        None if there is no such file.

        The name is a feature's, whatever that may be: it has no "/", and so leads nowhere else.
        """
        if "\0" in name:
            return None
        try:
            text = read_text(os.path.join(self._directory, name), _MOST_BYTES)
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise
        lines = (line[0].strip() for line in _LINE.finditer(text))
        return tuple(islice(filter(None, lines), self._left + 1))  # one too many is enough
