"""Preset of an audio dataset."""

from __future__ import annotations

from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature

_SAMPLES = 64000  # four seconds at 16 kHz
_QUALITIES = 10


def nsynth() -> Schema:
    """Return the schema of NSynth, a dataset of musical notes.

    ``audio`` is float32 ``[B, 64000]`` from -1 to 1, ``qualities`` is int64 ``[B, 10]`` of 0 and 1,
    and ``qualities_str`` is a Ragged of bytes. All other features have one value: bytes if the name
    ends in "_str", otherwise int64.

    Source: https://magenta.tensorflow.org/datasets/nsynth ("Example features") and magenta,
    ``magenta/models/nsynth/reader.py``.
    """
    numbers = ("pitch", "velocity", "sample_rate", "instrument_family", "instrument_source")
    return Schema(
        {
            "note": FixedLenFeature([], "int64"),
            "note_str": FixedLenFeature([], "string"),
            "instrument": FixedLenFeature([], "int64"),
            "instrument_str": FixedLenFeature([], "string"),
            **dict.fromkeys(numbers, FixedLenFeature([], "int64")),
            "instrument_family_str": FixedLenFeature([], "string"),
            "instrument_source_str": FixedLenFeature([], "string"),
            "qualities": FixedLenFeature([_QUALITIES], "int64"),
            "qualities_str": VarLenFeature("string"),
            "audio": FixedLenFeature([_SAMPLES], "float32"),
        }
    )
