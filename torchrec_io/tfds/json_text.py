"""JSON that somebody else wrote: read within bounds, and looked at with its place at hand."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError
from ..schema.bounded_json import parse_json, shown
from ..storage.local import StrPath

_INTEGER = re.compile(r"-?[0-9]{1,20}")


def read_text(path: StrPath, most_bytes: int) -> str:
    """What a text file holds.

    Raises:
        SchemaError: it is no file, has more bytes than ``most_bytes``, or is not UTF-8.
        OSError: there is no such file, or it cannot be read.
    """
    name = os.fspath(path)
    # Opening a pipe would wait for somebody to write.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SchemaError("this is no file", path=name)
    with open(descriptor, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise SchemaError(f"the file has more than {most_bytes} bytes", path=name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"the file is not UTF-8 text: {error}", path=name) from None


def read_json(path: StrPath, most_bytes: int) -> Node:
    """The JSON that a file holds.

    Raises:
        SchemaError: as :func:`read_text`; or it is not JSON, is too deep, names a thing twice, or
            has numbers that JSON has not.
        OSError: there is no such file, or it cannot be read.
    """
    name = os.fspath(path)
    return Node(_parse(read_text(path, most_bytes), name, ""), name, "")


def _parse(text: str, path: str, where: str) -> Any:
    try:
        return parse_json(text)
    except SchemaError as error:
        reason = f"{where}: {error.reason}" if where else error.reason
        raise SchemaError(reason, path=path) from None


@dataclass(frozen=True)
class Node:
    """A value in a JSON file, and where it is.

    Members of messages have two names: proto JSON is written in camelCase and, where it was asked
    for, in snake_case. ``null`` is as good as nothing, as proto JSON has it.

    Attributes:
        value: As Python has it.
        path: The file.
        where: In the file, such as ``"featuresDict.features.image"``.
    """

    value: Any
    path: str
    where: str

    def error(self, reason: str) -> SchemaError:
        """An error at this place."""
        return SchemaError(f"{self.where}: {reason}" if self.where else reason, path=self.path)

    def get(self, name: str) -> Node | None:
        """A member of an object, by its name in snake_case; None if it is not there.

        Raises:
            SchemaError: this is no object, or has both spellings of the name.
        """
        members = self._members()
        spellings = [s for s in dict.fromkeys((_camel(name), name)) if members.get(s) is not None]
        if len(spellings) > 1:
            raise self.error(f"{spellings[0]!r} and {spellings[1]!r} are one and the same")
        return self._child(spellings[0], members[spellings[0]]) if spellings else None

    def need(self, name: str) -> Node:
        """A member that must be there.

        Raises:
            SchemaError: it is not.
        """
        found = self.get(name)
        if found is None:
            raise self.error(f"there is no {_camel(name)!r}")
        return found

    def members(self) -> Iterator[tuple[str, Node]]:
        """The members of an object, by their names.

        Raises:
            SchemaError: this is none, or a name is no text.
        """
        for name, value in self._members().items():
            Node(name, self.path, self.where).as_text()
            yield name, self._child(name, value)

    def items(self) -> Iterator[Node]:
        """The items of a list.

        Raises:
            SchemaError: this is none.
        """
        if not isinstance(self.value, list):
            raise self.error(f"a list is needed here, not {shown(self.value)}")
        for number, item in enumerate(self.value):
            yield Node(item, self.path, f"{self.where}[{number}]")

    def text(self, name: str, default: str = "") -> str:
        """A member that is a string.

        Raises:
            SchemaError: it is something else, or holds what is no text.
        """
        found = self.get(name)
        return default if found is None else found.as_text()

    def flag(self, name: str) -> bool:
        """A member that is true or false; false if it is not there.

        Raises:
            SchemaError: it is something else.
        """
        found = self.get(name)
        if found is not None and not isinstance(found.value, bool):
            raise found.error(f"true or false is needed here, not {shown(found.value)}")
        return found is not None and found.value is True

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int | None:
        """A member that is a whole number.

        Raises:
            SchemaError: it is something else, or out of range.
        """
        found = self.get(name)
        return default if found is None else found.as_whole(least, most)

    def as_text(self) -> str:
        """The string that this is."""
        if not isinstance(self.value, str):
            raise self.error(f"a string is needed here, not {shown(self.value)}")
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise self.error(f"{shown(self.value)} is no text") from None
        return self.value

    def as_whole(self, least: int, most: int) -> int:
        """The whole number that this is; proto JSON writes one of 64 bits as a string."""
        value = self.value
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(
                f"a whole number from {least} to {most} is needed here, not {shown(self.value)}"
            )
        return value

    def inner(self) -> Node:
        """What the JSON says that stands here as a string.

        Raises:
            SchemaError: there is no such text.
        """
        return Node(_parse(self.as_text(), self.path, self.where), self.path, self.where)

    def _members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.error(f"an object is needed here, not {shown(self.value)}")
        return self.value

    def _child(self, name: str, value: Any) -> Node:
        return Node(value, self.path, f"{self.where}.{name}" if self.where else name)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
