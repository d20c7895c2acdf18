"""Reader of JSON files within bounds, with the position of each value for errors."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .._schema.bounded_json import parse_json, shown
from .._storage.byte_source import read_bytes
from .._storage.location import Location
from ..errors import SchemaError

_INTEGER = re.compile(r"-?[0-9]{1,20}")


def read_text(location: Location, most_bytes: int) -> str:
    """Return the text of a file or remote object.

    Raises:
        SchemaError: If this is not a regular file, has more bytes than ``most_bytes``, or is not
            UTF-8.
        OSError: If the file cannot be read.
    """
    name = location.name
    # Opening a pipe would wait for a writer.
    if location.local_path is not None and not stat.S_ISREG(os.stat(name).st_mode):
        raise SchemaError("this is not a regular file", path=name)
    data = read_bytes(location.open(), 0, min(most_bytes + 1, location.stamp().size))
    if len(data) > most_bytes:
        raise SchemaError(f"the file has more than {most_bytes} bytes", path=name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"the file is not UTF-8 text: {error}", path=name) from None


def read_json(location: Location, most_bytes: int) -> Node:
    """Return the JSON of a file or remote object.

    Raises:
        SchemaError: If the text cannot be read (see :func:`read_text`), is not valid JSON, is
            nested too deeply, or repeats a name in an object.
        OSError: If the file cannot be read.
    """
    return Node(read_text(location, most_bytes), location.name, "").inner()


@dataclass(frozen=True)
class Node:
    """A value in a JSON file, and its position.

    Names of members are written in camelCase or in snake_case, because proto JSON allows both. As
    in proto JSON, a member that is ``null`` counts as missing.

    Attributes:
        value: Value in Python.
        path: Path of the file.
        where: Position in the file, such as ``"featuresDict.features.image"``.
    """

    value: Any
    path: str
    where: str

    def error(self, reason: str) -> SchemaError:
        """Return an error that names this position."""
        return SchemaError(f"{self.where}: {reason}" if self.where else reason, path=self.path)

    def get(self, name: str) -> Node | None:
        """Return a member of an object by its name in snake_case, or None if it is missing.

        Raises:
            SchemaError: If this is not an object, or has both spellings of the name.
        """
        members = self._members()
        spellings = [s for s in dict.fromkeys((_camel(name), name)) if members.get(s) is not None]
        if len(spellings) > 1:
            raise self.error(f"{spellings[0]!r} and {spellings[1]!r} are two spellings of one name")
        return self._child(spellings[0], members[spellings[0]]) if spellings else None

    def need(self, name: str) -> Node:
        """Return a required member.

        Raises:
            SchemaError: If it is missing.
        """
        found = self.get(name)
        if found is None:
            raise self.error(f"{_camel(name)!r} is missing")
        return found

    def members(self) -> Iterator[tuple[str, Node]]:
        """Yield the name and value of each member of an object.

        Raises:
            SchemaError: If this is not an object, or a name is not valid Unicode.
        """
        for name, value in self._members().items():
            Node(name, self.path, self.where).as_text()
            yield name, self._child(name, value)

    def items(self) -> Iterator[Node]:
        """Yield the items of a list.

        Raises:
            SchemaError: If this is not a list.
        """
        if not isinstance(self.value, list):
            raise self.error(f"must be a list, got {shown(self.value)}")
        for number, item in enumerate(self.value):
            yield Node(item, self.path, f"{self.where}[{number}]")

    def text(self, name: str) -> str:
        """Return a member that is a string; "" if it is missing.

        Raises:
            SchemaError: If it is not a string of valid Unicode.
        """
        found = self.get(name)
        return "" if found is None else found.as_text()

    def flag(self, name: str) -> bool:
        """Return a member that is true or false; False if it is missing.

        Raises:
            SchemaError: If it is something else.
        """
        found = self.get(name)
        if found is not None and not isinstance(found.value, bool):
            raise found.error(f"must be true or false, got {shown(found.value)}")
        return found is not None and found.value is True

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int | None:
        """Return a member that is an integer.

        Raises:
            SchemaError: If it is not an integer in the range.
        """
        found = self.get(name)
        return default if found is None else found.as_whole(least, most)

    def as_text(self) -> str:
        """Return this value, which must be a string."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a string, got {shown(self.value)}")
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise self.error(f"must be valid Unicode text, got {shown(self.value)}") from None
        return self.value

    def as_whole(self, least: int, most: int) -> int:
        """Return this value as an integer; proto JSON writes one of 64 bits as a string."""
        value = self.value
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(f"must be an integer from {least} to {most}, got {shown(self.value)}")
        return value

    def inner(self) -> Node:
        """Parse the JSON in this value, which must be a string.

        Raises:
            SchemaError: If it is not a string that contains valid JSON.
        """
        text = self.as_text()
        try:
            return Node(parse_json(text), self.path, self.where)
        except SchemaError as error:
            raise self.error(error.reason) from None

    def _members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.error(f"must be an object, got {shown(self.value)}")
        return self.value

    def _child(self, name: str, value: Any) -> Node:
        return Node(value, self.path, f"{self.where}.{name}" if self.where else name)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
