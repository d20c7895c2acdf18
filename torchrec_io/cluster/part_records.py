"""Records of finished parts, by which a job that is started again finds them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import errors as error_classes
from .._records.formats import TFRECORD
from .._storage.byte_source import read_bytes
from .._storage.location import Location, threads_for
from .._storage.outputs import remove_output, write_output
from .._storage.thread_pool import map_in_threads
from ..errors import TorchRecIOError
from ..tools.report import MOST_KEPT_ERRORS

RECORD_SUFFIX = ".json"


class FileContent(NamedTuple):
    """Size and fingerprint that identify the content of a file.

    Attributes:
        size: Size in bytes.
        fingerprint: Digest of both its ends.
    """

    size: int
    fingerprint: int


@dataclass
class TaskErrors:
    """Errors of records that a task leaves out, of which the first ones are kept.

    Attributes:
        first: The first errors, at most 1,000.
        more: Number of the others.
    """

    first: list[TorchRecIOError] = field(default_factory=list)
    more: int = 0

    def add(self, errors: Sequence[TorchRecIOError], more: int = 0) -> None:
        """Add errors, and a number of others."""
        room = MOST_KEPT_ERRORS - len(self.first)
        self.first += errors[:room]
        self.more += len(errors[room:]) + more


class JobPart(NamedTuple):
    """A complete file in the hidden folder.

    Attributes:
        number: Position of the part among all parts.
        records: Number of records.
        content: Content of its file.
        errors: Errors of the first records that the part lacks, at most 1,000.
        more_errors: Number of the other records that it lacks.
        facts: Other facts of the part, as JSON stores them.
    """

    number: int
    records: int
    content: FileContent
    errors: tuple[TorchRecIOError, ...] = ()
    more_errors: int = 0
    facts: Mapping[str, Any] = {}


def save_part(file: Location, part: JobPart, key: str) -> None:
    """Write the record of a part whose file is complete.

    Args:
        file: The file.
        part: The part.
        key: Identity of the work: of the input, and of the options that change the part.
    """
    members = {
        "key": key,
        "records": part.records,
        "content": part.content,
        "errors": [_members(error) for error in part.errors],
        "more_errors": part.more_errors,
        "facts": dict(part.facts),
    }
    write_output(file.beside(RECORD_SUFFIX), json.dumps(members).encode())


def delete_part_record(file: Location) -> None:
    """Remove the record of a part, if there is one."""
    remove_output(file.beside(RECORD_SUFFIX))


def load_part(number: int, file: Location, key: str, *, has_moved: bool = False) -> JobPart | None:
    """Return a part that was finished before, or None.

    A part does not count if its record is damaged or of other work, or if its file is not the one
    that was written. A file that has moved to its output is not compared.
    """
    try:
        members = json.loads(_read(file.beside(RECORD_SUFFIX)))
        content = FileContent(*members["content"])
        if members["key"] != key or not (has_moved or content == content_of(file)):
            return None
        errors = tuple(_error(error) for error in members["errors"])
        records = int(members["records"])
        more, facts = int(members["more_errors"]), dict(members["facts"])
        return JobPart(number, records, content, errors, more, facts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save_outputs(record: Location, outputs: Mapping[Location, JobPart], identity: str) -> None:
    """Write a record of the outputs that are about to get their names.

    Args:
        record: Location of the record.
        outputs: The part that becomes each output.
        identity: Identity of the work that made the parts.
    """
    listed = [[output.name, *part.content] for output, part in outputs.items()]
    members = {"identity": identity, "outputs": listed}
    write_output(record, json.dumps(members).encode())


def load_outputs(record: Location, identity: str | None) -> list[Location] | None:
    """Return the outputs that got their names, or None if there is no record or not all have them.

    Args:
        record: Location of the record.
        identity: Identity of the work that makes the parts; outputs of other work do not count.
            None for any.
    """
    try:
        members = json.loads(_read(record))
        listed = members["outputs"]
        if identity not in (None, members["identity"]):
            return None
        outputs = [record.at(str(output)) for output, _, _ in listed]
        found = map_in_threads(content_of, outputs, threads_for(outputs))
        if found == [FileContent(size, digest) for _, size, digest in listed]:
            return outputs
    except (OSError, ValueError, TypeError, LookupError):
        pass
    return None


def content_of(file: Location) -> FileContent:
    """Return the size and fingerprint of the present content of a file."""
    with closing(file.open_now()) as source:
        size = source.stamp.size
        return FileContent(size, TFRECORD.fingerprint(source, size))


def _read(file: Location) -> bytes:
    with closing(file.open_now()) as source:
        return read_bytes(source, 0, source.stamp.size)


def _members(error: TorchRecIOError) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "reason": error.reason,
        "path": error.path,
        "record": error.record,
        "offset": error.offset,
        "feature": error.feature,
    }


def _error(members: Mapping[str, Any]) -> TorchRecIOError:
    fields = dict(members)
    error_class = getattr(error_classes, fields.pop("type"))
    if not issubclass(error_class, TorchRecIOError):
        raise TypeError(f"{error_class} is not an error of this package")
    error: TorchRecIOError = error_class(fields.pop("reason"), **fields)
    return error
