"""Arguments of an ImageFeature that make no sense, alone or together."""

from __future__ import annotations

import math
from typing import Any

import pytest

import torchrec_io as tio

MEAN = (0.5, 0.5, 0.5)
BITCAST: dict[str, Any] = {"channels": 1, "dtype": "float32", "bitcast": True}
COVER: dict[str, Any] = {"size": (4, 6), "resize": "cover"}
INDEX: dict[str, Any] = {"palette": "index", "channels": 1}
NEAREST: dict[str, Any] = {"filter": "nearest", "size": (2, 2)}
RANDOM = tio.RandomResizedCrop()
JITTER = tio.ColorJitter(0.5)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"channels": 5}, "channels must be an integer from 0 to 4"),
        ({"channels": -1}, "channels must be an integer from 0 to 4"),
        ({"dtype": "int64"}, "dtype of an ImageFeature must be one of"),
        ({"dtype": "string"}, "dtype of an ImageFeature must be one of"),
        ({"dtype": "colour"}, "dtype must be one of"),
        ({"layout": "chw"}, "one of 'CHW', 'HWC'"),
        ({"size": (4,)}, "height, width"),
        ({"size": 4}, "height, width"),
        ({"size": (4, 0)}, "height, width"),
        ({"size": (4, -1)}, "size must be a list of non-negative integers"),
        ({"size": (4, 5, 3)}, "height, width"),
        ({"resize": "fit", "size": (2, 2)}, "resize must be one of 'stretch', 'cover', 'contain'"),
        ({"resize": "cover"}, "resize='cover' needs size"),
        ({"resize": None}, "resize=None needs size"),
        ({"fill": 256}, "fill must be"),
        ({"fill": -1}, "fill must be"),
        ({"fill": 0.5}, "fill must be"),
        ({"crop": (0, 0, 0, 1)}, "crop must be"),
        ({"crop": (-1, 0, 1, 1)}, "crop must be"),
        ({"crop": (0, 0, 1.5, 1)}, "crop must be"),
        ({"crop": 5}, "crop must be"),
        ({"augment": "flip"}, "augment must be a function"),
        ({"mixed": "stack"}, "mixed must be one of 'list', 'pad'"),
        ({"mixed": "pad", "size": (2, 2)}, "mixed='pad' excludes"),
        ({"mixed": "pad", "channels": 0}, "mixed='pad' excludes"),
        ({"decoder": "opencv"}, "decoder must be one of 'auto', 'native', 'pillow', 'cuda', None"),
        ({"dtype": "uint16", "size": (2, 3)}, "needs resize=None"),
        # Masks.
        ({"filter": "bicubic"}, "filter must be"),
        ({"palette": "indices"}, "palette must be"),
        ({"filter": "nearest"}, "filter='nearest' needs size"),
        ({**NEAREST, "resize": None}, "filter='nearest' needs size"),
        ({**NEAREST, "fast": True}, "excludes fast"),
        ({"palette": "index"}, "palette='index' needs channels=1"),
        ({**INDEX, "dtype": "float32"}, "dtype='uint8'"),
        ({**INDEX, "size": (2, 2)}, "cannot be averaged: resize them"),
        ({"names": ["a", "b"], "size": (2, 2)}, "cannot be averaged: resize them"),
        # Floats in four channels.
        ({"bitcast": True}, "channels=1 and dtype='float32'"),
        ({**BITCAST, "dtype": "float64"}, "channels=1 and dtype='float32'"),
        ({**BITCAST, "size": (2, 3)}, "needs resize=None"),
        ({**BITCAST, "crop": (0, 0, 1, 1)}, "bitcast excludes crop"),
        ({**BITCAST, "augment": RANDOM}, "bitcast excludes augment"),
        ({**BITCAST, "apply_exif_orientation": True}, "excludes apply_exif_orientation"),
        # Frames.
        ({"animated": True, "channels": 1}, "animated needs channels=3"),
        ({"animated": True, "dtype": "uint16"}, "animated needs channels=3"),
        ({"animated": True, "mixed": "pad"}, "animated excludes mixed"),
        ({"animated": True, "augment": RANDOM}, "animated excludes augment"),
        # Colors.
        ({"jitter": 0.5}, "jitter must be a ColorJitter, got 0.5"),
        ({"jitter": RANDOM}, "jitter must be a ColorJitter"),
        ({"jitter": JITTER, "channels": 0}, "jitter needs channels=3"),
        ({"jitter": JITTER, "channels": 4}, "jitter needs channels=3"),
        ({"jitter": JITTER, **INDEX}, "jitter needs channels=3"),
        ({"jitter": JITTER, "dtype": "uint16"}, "jitter needs .* other than uint16"),
        ({"jitter": JITTER, "names": ["a", "b"]}, "jitter excludes names"),
        ({"jitter": JITTER, **BITCAST}, "jitter needs channels=3"),
        ({"jitter": JITTER, "animated": True}, "animated excludes jitter"),
        # Values.
        ({"mean": MEAN}, "mean needs a float dtype"),
        ({"mean": MEAN, "dtype": "float32", "channels": 0}, "mean needs a float dtype"),
        ({"std": MEAN, "dtype": "float32", "mixed": "pad"}, "std needs a float dtype"),
        ({"std": (0.5, 0, 1), "dtype": "float32"}, "std must have a positive number"),
        ({"mean": (0.5, 1), "dtype": "float32"}, "mean must have a number for each channel"),
        ({"mean": "abc", "dtype": "float32"}, "mean must have a number for each channel"),
        ({"short_side": 5}, "short_side needs resize='cover'"),
        ({**COVER, "short_side": 5}, "size of at most short_side"),
        ({**COVER, "short_side": 0}, "short_side"),
        # Decoders.
        ({"fast": True, "tf_compatible": True}, "fast excludes tf_compatible"),
        ({"fast": True, "decoder": "pillow"}, "decoder='pillow' excludes fast"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        tio.ImageFeature(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"channels": 1},
        {"dtype": "float32"},
        {"layout": "HWC"},
        {"size": (2, 2)},
        {"max_pixels": 5},
        {"fill": 1},
        {"crop": (0, 0, 1, 1)},
        {"augment": RANDOM},
        {"jitter": JITTER},
        {"mixed": "pad"},
        {"apply_exif_orientation": True},
        {"animated": True},
        {"tf_compatible": True},
    ],
)
def test_undecoded_images_have_no_other_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(tio.SchemaError, match=f"decoder=None excludes {next(iter(arguments))}"):
        tio.ImageFeature(decoder=None, **arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"brightness": -0.1}, "brightness must be a number from 0 to 999999, or two numbers"),
        ({"brightness": 1e6}, "brightness must be"),
        ({"contrast": (0.5, 1_000_001)}, "contrast must be .* two numbers from 0 to 1e"),
        ({"contrast": (1.5, 0.5)}, "in ascending order"),
        ({"contrast": (0.5,)}, "contrast must be"),
        ({"saturation": "strong"}, "saturation must be"),
        ({"saturation": (0, math.nan)}, "saturation must be"),
        ({"saturation": True}, "saturation must be"),
        ({"hue": 0.6}, "hue must be a number from 0 to 0.5, or two numbers from -0.5 to 0.5"),
        ({"hue": -0.1}, "hue must be"),
        ({"hue": (-0.6, 0)}, "hue must be"),
        ({"p": 1.5}, "p must be a number from 0 to 1"),
        ({"p": None}, "p must be a number from 0 to 1"),
    ],
)
def test_invalid_jitter(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        tio.ColorJitter(**arguments)
