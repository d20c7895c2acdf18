"""The names of a record's features, as they are stored."""

from __future__ import annotations

import functools

import numpy as np

from .. import _core
from .._records.record_block import RecordList


def name_of(key: bytes) -> str:
    """Return the name of a feature from its bytes, which may be any."""
    return key.decode("utf-8", "surrogateescape")


def feature_names(record: bytes) -> tuple[list[str], list[str]] | None:
    """Return the names of the features of an Example or the context, and of the feature lists.

    Returns:
        The names, as they are stored first; None if the record is neither an Example nor a
        SequenceExample, or has too many features. Their values are not read.
    """
    survey = _core.Survey(no_characters(), with_values=False)
    batch = survey.add(RecordList.of([record]).native())
    if batch.rejected or batch.is_full:
        return None
    return list(map(name_of, survey.context)), list(map(name_of, survey.lists))


@functools.cache
def no_characters() -> _core.CharacterSet:
    """Return the characters of text for surveys that do not read values."""
    return _core.CharacterSet(np.zeros(_core.CHARACTER_SET_BYTES, np.uint8))
