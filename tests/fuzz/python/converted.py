"""Conversions of one file, and their output as protobuf reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.fuzz.python.inputs import empty_folder
from tests.support.messages import Example
from torchrec_io._records.sequential import iter_records
from torchrec_io.errors import ConversionError, TorchRecIOError


class Converted(NamedTuple):
    """The result of a conversion.

    Attributes:
        records: Kind and values of the features of each record.
        errors: Errors that were skipped.
    """

    records: list[dict[str, tuple[str, list[Any]]]]
    errors: list[TorchRecIOError]


def convert(
    function: Callable[..., Any], file: bytes, name: str, **options: Any
) -> Converted | None:
    """Convert a file and read the records back; return None if it is refused.

    A refusal is a ConversionError that names the file, and nothing is left behind.
    """
    with empty_folder() as folder:
        source = folder / name
        source.write_bytes(file)
        output = folder / "output"
        output.mkdir()
        try:
            result = function(source, output / "data.tfrecord", index=False, **options)
        except ConversionError as error:
            is_empty = error.reason == "there is no record to write"
            assert is_empty or str(source) in str(error), "the error does not name the file"
            assert len(str(error)) < 5000, "the message repeats the input"
            assert not list(output.iterdir()), "a part of the output was left behind"
            return None
        messages = [Example.FromString(data) for _, data in iter_records(result.paths[0])]
        assert result.records == len(messages)
        return Converted([_features_of(message) for message in messages], list(result.errors))


def _features_of(message: Any) -> dict[str, tuple[str, list[Any]]]:
    found = {}
    for name, feature in message.features.feature.items():
        kind = feature.WhichOneof("kind")
        found[name] = (kind, list(getattr(feature, kind).value) if kind else [])
    return found
