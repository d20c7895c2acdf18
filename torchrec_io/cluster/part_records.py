"""Records of finished parts, by which a job that is started again finds them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import errors as error_classes
from ..errors import TorchRecIOError
from ..records.formats import TFRECORD
from ..storage.opening import is_remote, open_now
from ..storage.outputs import remove_output, write_output
from ..storage.remote.options import RemoteOptions
from ..storage.thread_pool import REMOTE_THREADS, map_in_threads
from ..tools.report import MOST_KEPT_ERRORS

RECORD_SUFFIX = ".json"


class Content(NamedTuple):
    """What identifies the content of a file.

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


class Part(NamedTuple):
    """A complete file in the hidden folder.

    Attributes:
        number: Position of the part among all parts.
        path: Path of its file.
        records: Number of records.
        content: Content of its file.
        errors: Errors of the first records that the part lacks, at most 1,000.
        more_errors: Number of the other records that it lacks.
        facts: Other facts of the part, as JSON stores them.
    """

    number: int
    path: str
    records: int
    content: Content
    errors: tuple[TorchRecIOError, ...] = ()
    more_errors: int = 0
    facts: Mapping[str, Any] = {}


def save_part(part: Part, key: str, remote: RemoteOptions) -> None:
    """Write the record of a part whose file is complete.

    Args:
        part: The part.
        key: Identity of the work: of the input, and of the options that change the part.
        remote: Options for remote objects.
    """
    members = {
        "key": key,
        "records": part.records,
        "content": part.content,
        "errors": [_members(error) for error in part.errors],
        "more_errors": part.more_errors,
        "facts": dict(part.facts),
    }
    write_output(part.path + RECORD_SUFFIX, json.dumps(members).encode(), remote)


def forget_part(path: str, remote: RemoteOptions) -> None:
    """Remove the record of a part, if there is one."""
    remove_output(path + RECORD_SUFFIX, remote)


def load_part(
    number: int, path: str, key: str, remote: RemoteOptions, *, has_moved: bool = False
) -> Part | None:
    """Return a part that was finished before, or None.

    A part does not count if its record is damaged or of other work, or if its file is not the one
    that was written. A file that has moved to its output is not compared.
    """
    try:
        members = json.loads(_read(path + RECORD_SUFFIX, remote))
        content = Content(*members["content"])
        if members["key"] != key or not (has_moved or content == content_of(path, remote)):
            return None
        errors = tuple(_error(error) for error in members["errors"])
        records = int(members["records"])
        more, facts = int(members["more_errors"]), dict(members["facts"])
        return Part(number, path, records, content, errors, more, facts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save_outputs(
    path: str, outputs: Mapping[str, Part], identity: str, remote: RemoteOptions
) -> None:
    """Write a record of the outputs that are about to get their names.

    Args:
        path: Path of the record.
        outputs: The part that becomes each output, by the path of the output.
        identity: Identity of the work that made the parts.
        remote: Options for remote objects.
    """
    listed = [[output, *part.content] for output, part in outputs.items()]
    members = {"identity": identity, "outputs": listed}
    write_output(path, json.dumps(members).encode(), remote)


def load_outputs(path: str, identity: str | None, remote: RemoteOptions) -> list[str] | None:
    """Return the outputs that got their names, or None if there is no record or not all have them.

    Args:
        path: Path of the record.
        identity: Identity of the work that makes the parts; outputs of other work do not count.
            None for any.
        remote: Options for remote objects.
    """
    try:
        members = json.loads(_read(path, remote))
        listed = members["outputs"]
        if identity not in (None, members["identity"]):
            return None
        outputs = [str(output) for output, _, _ in listed]
        threads = REMOTE_THREADS if is_remote(path) else None
        found = map_in_threads(lambda output: content_of(output, remote), outputs, threads)
        if found == [Content(size, digest) for _, size, digest in listed]:
            return outputs
    except (OSError, ValueError, TypeError, LookupError):
        pass
    return None


def content_of(path: str, remote: RemoteOptions) -> Content:
    """Return what identifies the content of a file as it is now."""
    with closing(open_now(path, remote)) as file:
        size = file.stamp.size
        return Content(size, TFRECORD.fingerprint(file, size))


def _read(path: str, remote: RemoteOptions) -> bytes:
    with closing(open_now(path, remote)) as file:
        return file.read(0, file.stamp.size)


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
