"""Errors about data: one base class, and one subclass for each cause.

Other errors keep Python's own classes, such as ``FileNotFoundError``, ``IsADirectoryError``, and
``ValueError`` for an invalid argument.
"""

from __future__ import annotations

import ast
import re
from typing import Any

# The end of a traceback: "module.Class: path: reason (record 3, offset 44, feature 'x')". The
# reason may have several lines.
_LAST_ERROR = re.compile(r"^torchrec_io\.errors\.\w+: ", re.MULTILINE)
_QUOTED = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_FIELD = rf"(?:(?:record|offset) \d+|feature {_QUOTED})"
_TEXT = re.compile(
    rf"(?:(?P<path>{_QUOTED}|[^\n]*?): )?.*?(?: \((?P<fields>{_FIELD}(?:, {_FIELD})*)\))?\s*\Z",
    re.DOTALL,
)


class TorchRecIOError(Exception):
    """Base class of errors about data.

    Attributes are None if they are not known. They are pickled, so errors of worker processes keep
    them.

    Attributes:
        reason: Reason of the error, in one sentence.
        path: Path of the data file.
        record: Number of the record in the file, counted from 0.
        offset: Byte offset of the error in the file, in the decompressed stream of a compressed
            file, or in a record that is in memory.
        feature: Name of the feature.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        record: int | None = None,
        offset: int | None = None,
        feature: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.record = record
        self.offset = offset
        self.feature = feature
        if reason.startswith("Caught ") and "DataLoader worker" in reason:
            self._recover_fields()

    def _recover_fields(self) -> None:
        """Read the attributes from the text of a DataLoader worker's traceback.

        PyTorch does not pickle the exception of a worker. It raises a new one of the same class
        with the text of the traceback, which ends with the original message.
        """
        starts = [found.end() for found in _LAST_ERROR.finditer(self.reason)]
        found = _TEXT.match(self.reason, starts[-1]) if starts else None
        if found is None:
            return
        path = found["path"]
        # Without a path, the text before the first colon is the start of the reason.
        if path is not None and ("/" in path or " " not in path):
            self.path = ast.literal_eval(path) if re.fullmatch(_QUOTED, path) else path
        for field in re.findall(_FIELD, found["fields"] or ""):
            name, value = field.split(" ", 1)
            setattr(self, name, ast.literal_eval(value))

    def __str__(self) -> str:
        if self.reason.startswith("Caught "):
            return self.reason  # the traceback contains the attributes
        fields = [
            f"{name} {value!r}" if name == "feature" else f"{name} {value}"
            for name, value in self._position().items()
            if value is not None
        ]
        start = "" if self.path is None else f"{_shown(self.path)}: "
        return start + self.reason + (f" ({', '.join(fields)})" if fields else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.reason, {"path": self.path, **self._position()})

    def _position(self) -> dict[str, Any]:
        return {"record": self.record, "offset": self.offset, "feature": self.feature}


def _shown(path: str) -> str:
    """Return a path, quoted and escaped if a terminal would not show all of its characters."""
    return path if path.isprintable() else repr(path)


def _rebuild(cls: type[TorchRecIOError], reason: str, fields: dict[str, Any]) -> TorchRecIOError:
    return cls(reason, **fields)


class CorruptRecordError(TorchRecIOError):
    """Data is corrupt: its checksum does not match, or its bytes are not valid."""


class RecordTooLargeError(CorruptRecordError):
    """A record claims more bytes than ``max_record_bytes`` allows."""


class TruncatedFileError(TorchRecIOError):
    """A file is truncated: it ends inside a record or inside its compressed stream."""


class StaleIndexError(TorchRecIOError):
    """An index is stale: it does not match the data file, which may have changed."""


class IndexFormatError(TorchRecIOError):
    """An index file is damaged, or is not an index."""


class IndexTooLargeError(TorchRecIOError):
    """The index of a file would be far larger than the file."""


class WrongShardError(TorchRecIOError):
    """A file is not the shard that its dataset describes: its records or their number differ."""


class SchemaError(TorchRecIOError):
    """A schema is not valid, or names something that does not exist."""


class DecodeError(TorchRecIOError):
    """An intact record does not match the schema."""


class TransformError(TorchRecIOError):
    """A ``transform`` raised an error, which is the cause, or its result cannot be used."""


class StateMismatchError(TorchRecIOError):
    """A saved state does not match the order of the dataset, or cannot be resumed from."""


class ConversionError(TorchRecIOError):
    """Data cannot be converted to TFRecord or from it."""
