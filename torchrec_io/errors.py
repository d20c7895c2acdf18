"""What can go wrong with data: one base class, one subclass for each cause.

Errors of use keep Python's own classes: ``FileNotFoundError``, ``IsADirectoryError``,
``ValueError`` for a bad argument.
"""

from __future__ import annotations

import ast
import re
from typing import Any

# How a traceback ends: "module.Class: path: reason (record 3, offset 44, feature 'x')". The reason
# may go over several lines.
_LAST_ERROR = re.compile(r"^torchrec_io\.errors\.\w+: ", re.MULTILINE)
_PLACE = r"(?:(?:record|offset) \d+|feature (?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"))"
_TEXT = re.compile(
    rf"(?:(?P<path>[^\n]*?): )?.*?(?: \((?P<places>{_PLACE}(?:, {_PLACE})*)\))?\s*\Z", re.DOTALL
)


class TorchRecIOError(Exception):
    """Base of every error about data. All fields survive pickling, so they cross worker processes.

    Attributes:
        reason: What is wrong, in one sentence.
        path: The data file, where known.
        record: Number of the record in that file, counted from 0.
        offset: Byte offset of the trouble: in the file, or in the decompressed stream of a
            compressed file. For records that are in memory: in the record.
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
            self._recover_places()

    def _recover_places(self) -> None:
        """Reads the fields back from the text of a DataLoader worker's traceback.

        PyTorch does not pickle a worker's exception: it makes a new one of the same class from the
        traceback's text, which ends with ours.
        """
        starts = [found.end() for found in _LAST_ERROR.finditer(self.reason)]
        found = _TEXT.match(self.reason, starts[-1]) if starts else None
        if found is None:
            return
        path = found["path"]
        # Without a path, what stands before the first colon is how the reason begins.
        if path is not None and ("/" in path or " " not in path):
            self.path = path
        for place in re.findall(_PLACE, found["places"] or ""):
            name, value = place.split(" ", 1)
            setattr(self, name, ast.literal_eval(value))

    def __str__(self) -> str:
        if self.reason.startswith("Caught "):
            return self.reason  # it says all
        places = [
            f"{name} {value!r}" if name == "feature" else f"{name} {value}"
            for name, value in self._places().items()
            if value is not None
        ]
        start = f"{self.path}: " if self.path is not None else ""
        return start + self.reason + (f" ({', '.join(places)})" if places else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.reason, {"path": self.path, **self._places()})

    def _places(self) -> dict[str, Any]:
        return {"record": self.record, "offset": self.offset, "feature": self.feature}


def _rebuild(cls: type[TorchRecIOError], reason: str, fields: dict[str, Any]) -> TorchRecIOError:
    return cls(reason, **fields)


class CorruptRecordError(TorchRecIOError):
    """Bytes do not match their checksum, or cannot be what they should be."""


class TruncatedFileError(TorchRecIOError):
    """A file ends in the middle of a record or of its compressed stream."""


class StaleIndexError(TorchRecIOError):
    """An index does not belong to the data file as it is now."""


class IndexFormatError(TorchRecIOError):
    """An index file is damaged, or not an index at all."""


class WrongShardError(TorchRecIOError):
    """A file is not the shard that its dataset says it is: it has other records, or not as many."""


class SchemaError(TorchRecIOError):
    """A schema contradicts itself or asks for something that does not exist."""


class DecodeError(TorchRecIOError):
    """A sound record does not hold what the schema asks for."""


class StateMismatchError(TorchRecIOError):
    """A saved state is of another order than the dataset's, or cannot be gone on from here."""


class ConversionError(TorchRecIOError):
    """What was to be converted to TFRecord, or from it, cannot be as it is."""
