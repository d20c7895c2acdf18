"""Names of classes, which TFDS stores in files beside features.json."""

from __future__ import annotations

import errno
import re
from itertools import islice

from .._storage.location import Location
from .json_text import Node, read_text

_MOST_BYTES = 64 << 20
_MOST_CLASSES = 1_000_000
_LINE = re.compile(r"[^\r\n]+")  # Python ends lines at both
# Errors of paths that are too long, or that lead through a file: these files do not exist either.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL)


class Labels:
    """Reader of the names of classes of a dataset, a million at most.

    Args:
        directory: Directory of the dataset.
    """

    def __init__(self, directory: Location) -> None:
        self._directory = directory
        self._left = _MOST_CLASSES

    def find(
        self, file_name: str | None, num_classes: int | None, node: Node
    ) -> tuple[str, ...] | None:
        """Return the names of a feature's classes.

        Without a file, the names are "0", "1" and so on, like ``ClassLabel.names`` of TFDS.

        Args:
            file_name: Prefix of the names of the feature's metadata files.
            num_classes: Number of classes, if it is known.
            node: JSON of the feature, for errors.

        Returns:
            The names; None if neither the names nor their number are known.

        Raises:
            SchemaError: If the file contains another number of names, or if the dataset has too
                many classes.
        """
        names = self._read(f"{file_name}.labels.txt")
        if names is not None and num_classes not in (None, len(names)):
            raise node.error(
                f"{file_name}.labels.txt must have a name for each of {num_classes} classes, got "
                f"{len(names)}"
            )
        count = len(names) if names is not None else num_classes
        if count is None:
            return None
        self._left -= count
        if self._left < 0:
            raise node.error(f"a dataset must have at most {_MOST_CLASSES} classes")
        return tuple(map(str, range(count))) if names is None else names

    def _read(self, name: str) -> tuple[str, ...] | None:
        """Return the lines of a file that are not blank; None if the file does not exist.

        The rules are those of ``_load_names_from_file`` in TFDS. ``name`` contains the name of a
        feature without any "/", so the path stays in the directory.
        """
        if "\0" in name:
            return None
        try:
            text = read_text(self._directory.child(name), _MOST_BYTES)
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise
        lines = (line[0].strip() for line in _LINE.finditer(text))
        # One name more than allowed is enough for the error.
        return tuple(islice(filter(None, lines), self._left + 1))
