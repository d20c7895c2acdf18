"""Numbers, strings, labels and tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # makes numpy know bfloat16
import numpy as np
import tensorflow_datasets as tfds

from tests.data.tfds_cases.build import Golden, dataset

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def values_cases(folder: Path) -> Iterator[Golden]:
    """All datasets of plain values; ``folder`` is for a file of class names."""
    yield scalars()
    yield text()
    yield labels(folder)
    yield tensors()
    yield shapes()
    yield strings()
    yield boxes()
    yield audio()
    yield optional()


def scalars() -> Golden:
    """Scalar and Tensor of no dimensions, at the ends of each dtype."""
    features: dict[str, Any] = {"bool": np.bool_, "string": np.str_, "object": np.object_}
    features |= {name: np.dtype(name).type for name in INTEGERS + FLOATS}
    features["scalar"] = tfds.features.Scalar(np.uint16)
    features["flag"] = tfds.features.Scalar(np.bool_)
    doc = tfds.features.Documentation(desc="How warm, °C", value_range="[-20, 50]")
    features["told_of"] = tfds.features.Tensor(
        shape=(), dtype=np.int32, minimum=-20, maximum=50, doc=doc
    )
    lowest: dict[str, Any] = {name: np.iinfo(name).min for name in INTEGERS}
    highest: dict[str, Any] = {name: np.iinfo(name).max for name in INTEGERS}
    lowest |= {"float16": -0.0, "float32": float("-inf"), "float64": -1.5}
    highest |= {"float16": 65504.0, "float32": 3.4e38, "float64": 0.1}
    lowest |= {
        "bool": False,
        "string": "",
        "object": b"\xff\x00",
        "scalar": 0,
        "flag": True,
        "told_of": -20,
    }
    highest |= {
        "bool": True,
        "string": "zwölf",
        "object": b"x",
        "scalar": 65535,
        "flag": False,
        "told_of": 50,
    }
    middle = {name: type(value)(1) for name, value in highest.items() if name in INTEGERS + FLOATS}
    middle |= {"bool": True, "string": "a/b\n", "object": b"", "uint64": 2**63}
    middle |= {"scalar": 300, "flag": True, "told_of": 7}
    return dataset("scalars", features, [lowest, highest, middle])


def text() -> Golden:
    """Text, which is bytes when read."""
    features = {"text": tfds.features.Text(), "title": tfds.features.Text()}
    texts = [("one", "I"), ("", "ü" * 40), ("drei\0", "III")]
    return dataset(
        "text",
        features,
        [{"text": t, "title": u} for t, u in texts],
        supervised_keys=("text", "title"),
    )


def labels(folder: Path) -> Golden:
    """ClassLabel of each kind, also in dicts: their names are in files of their own."""
    names_file = folder / "names.txt"
    names_file.write_text("ant\nbee\ncat\n")
    label = tfds.features.ClassLabel
    features = {
        "label": label(names=["zero", "one two", "drei/ü"]),
        "numbered": label(num_classes=5),
        "listed": label(names_file=names_file),
        "meta": {"kind": label(names=["x", "y"]), "deep": {"kind": label(names=["p", "q", "r"])}},
        "tags": tfds.features.Sequence(label(names=["red", "green"])),
        "objects": tfds.features.Sequence({"label": label(names=["car", "bus"])}),
    }
    records = [
        {
            "label": name,
            "numbered": number,
            "listed": ["cat", "ant", -1][number],
            "meta": {"kind": number % 2, "deep": {"kind": "r"}},
            "tags": ["red", "green"][:number],
            "objects": {"label": [1] * number},
        }
        for number, name in enumerate(["drei/ü", "zero", -1])
    ]
    return dataset("labels", features, records, supervised_keys=("numbered", "label"))


def array(number: int, dtype: str, *shape: int) -> Any:
    """An array of its own for each number."""
    return (np.arange(int(np.prod(shape))) * 7 + number * 3).astype(dtype).reshape(shape)


def tensors() -> Golden:
    """Tensor of every dtype and encoding, of a known shape."""
    features = {}
    for encoding in ("none", "bytes", "zlib"):
        dtypes = ["bool", *INTEGERS, *FLOATS]
        dtypes += [] if encoding == "none" else ["bfloat16", "complex64"]  # TFDS refuses them
        features[encoding] = {
            dtype: tfds.features.Tensor(shape=(2, 3), dtype=np.dtype(dtype).type, encoding=encoding)
            for dtype in dtypes
        }
    records = [
        {e: {d: array(number, d, 2, 3) for d in of} for e, of in features.items()}
        for number in (0, 1)
    ]
    for encoding in features:
        records[1][encoding]["uint64"] = np.full((2, 3), 2**64 - 1, np.uint64)
    return dataset("tensors", features, records)


def shapes() -> Golden:
    """Tensor with unknown dimensions, and one with a dimension of zero."""
    asked: dict[str, tuple[int | None, ...]] = {
        "first": (None, 2), "middle": (2, None, 3), "last": (3, None), "only": (None,),
        "two": (None, None), "three": (None, None, 3), "ends": (None, 2, None),
    }  # fmt: skip
    features = {"empty": tfds.features.Tensor(shape=(0, 3), dtype=np.float32)}
    for encoding in ("none", "bytes", "zlib"):
        for dtype in ("int32", "float32"):
            for name, size in asked.items():
                if encoding == "none" and size.count(None) > 1:
                    continue  # TFDS refuses it
                features[f"{name}_{dtype}_{encoding}"] = tfds.features.Tensor(
                    shape=size, dtype=np.dtype(dtype).type, encoding=encoding
                )
    records = []
    for number, sizes in enumerate([(3, 2), (1, 4), (0, 0)]):
        record = {}
        for name, feature in features.items():
            left = iter(sizes)
            shape = [next(left) if known is None else known for known in feature.shape]
            record[name] = array(number, feature.np_dtype, *shape)
        records.append(record)
    return dataset("shapes", features, records)


def strings() -> Golden:
    """Tensor of strings."""
    features = {
        "pair": tfds.features.Tensor(shape=(2,), dtype=np.str_),
        "grid": tfds.features.Tensor(shape=(2, 2), dtype=np.object_),
        "many": tfds.features.Tensor(shape=(None,), dtype=np.str_),
        "pairs": tfds.features.Tensor(shape=(None, 2), dtype=np.str_),
    }
    records: list[dict[str, Any]] = [
        {
            "pair": ["a", ""],
            "grid": [["b", "c"], ["", "ü"]],
            "many": ["x", "y"],
            "pairs": [["p", "q"]],
        },
        {
            "pair": ["", "b"],
            "grid": [["", ""], ["", ""]],
            "many": ["only"],
            "pairs": [["r", ""]] * 2,
        },
    ]
    return dataset("strings", features, records)


def boxes() -> Golden:
    """BBox of every format: always stored as ymin, xmin, ymax, xmax."""
    formats = ["REL_YXYX", "REL_XYXY", "YXYX", "XYXY", "XYWH"]
    features: dict[str, Any] = {
        name.lower(): tfds.features.BBoxFeature(bbox_format=name) for name in formats
    }
    features["unknown"] = tfds.features.BBoxFeature(bbox_format=None)
    features["several"] = tfds.features.Sequence(tfds.features.BBoxFeature())
    features["none"] = tfds.features.Sequence({"bbox": tfds.features.BBoxFeature()})
    box = tfds.features.BBox
    records = [
        {
            **{f.lower(): box(0.25, 0.1, 0.5, 0.75 + n / 8) for f in formats},
            "unknown": box(9.0, -1.0, 3.0, 0.5),
            "several": [box(0.0, 0.0, 0.5, 1.0)] * n,
            "none": {"bbox": []},
        }
        for n in range(2)
    ]
    return dataset("boxes", features, records)


# Three samples of 16 bits, 8,000 a second.
WAV = bytes.fromhex(
    "524946462a00000057415645666d74201000000001000100401f0000803e00000200100064617461"
    "0600000001000200ffff"
)


class WavFile:
    """What TFDS takes for a file: an object that reads."""

    def read(self) -> bytes:
        """The whole file."""
        return WAV


def audio() -> Golden:
    """Audio of each encoding; lazily decoded audio is stored as it came."""
    kinds: dict[str, dict[str, Any]] = {
        "mono": {},
        "stereo": {"shape": (None, 2), "dtype": np.int32, "sample_rate": 16000},
        "floats": {"dtype": np.float32},
        "fixed": {"shape": (4,), "dtype": np.int16},
    }
    features = {name: tfds.features.Audio(**kind) for name, kind in kinds.items()}
    features["lazy"] = tfds.features.Audio(file_format="wav", lazy_decode=True)
    records = [
        {
            "mono": np.arange(-n, n + 2),
            "stereo": array(n, "int32", n + 1, 2),
            "floats": array(n, "float32", n * 2),
            "fixed": array(n, "int16", 4),
            "lazy": WavFile(),
        }
        for n in range(3)
    ]
    return dataset("audio", features, records)


def optional() -> Golden:
    """What may be None: TensorFlow's reader of TFDS gives a default value then."""
    features: dict[str, Any] = {
        dtype: tfds.features.Scalar(np.dtype(dtype).type, optional=True)
        for dtype in ["bool", "int8", "int64", "uint8", "int32", "float16", "float32", "float64"]
    }
    features["string"] = tfds.features.Scalar(np.str_, optional=True)
    features["pair"] = tfds.features.Tensor(shape=(2,), dtype=np.int32, optional=True)
    features["deep"] = {"float32": tfds.features.Scalar(np.float32, optional=True)}
    there: dict[str, Any] = dict.fromkeys(features, 1)
    there |= {"bool": True, "string": "a", "pair": [1, 2], "deep": {"float32": 0.5}}
    missing: dict[str, Any] = {**dict.fromkeys(features), "deep": {"float32": None}}
    some = {**there, "int64": None, "pair": None}
    return dataset("optional", features, [there, missing, some])
