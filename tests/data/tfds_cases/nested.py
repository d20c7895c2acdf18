"""Sequences, dicts and datasets, in each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tests.data.tfds_cases.build import Golden, Record, dataset, picture

Sequence = tfds.features.Sequence
Tensor = tfds.features.Tensor
ABC = tfds.features.ClassLabel(names=["a", "b", "c"])


def nested_cases() -> Iterator[Golden]:
    """All datasets of values in values."""
    yield sequences()
    yield sequences_of_encoded()
    yield dicts()
    yield ragged()
    yield ragged_fixed()
    yield ragged_images()
    yield translations()
    yield sentences()
    yield episodes()
    yield datasets()
    yield slashes()


def sequences() -> Golden:
    """Sequence of plain values, of any length and of a known one."""
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "int32": (np.int32, [1, -2, 3]),
        "uint64": (np.uint64, [2**64 - 1, 0, 5]),
        "bool": (np.bool_, [True, False, True]),
        "float32": (np.float32, [0.5, -1.0, 2.5]),
        "float64": (np.float64, [0.1, -1.0, 2.5]),
        "text": (tfds.features.Text(), ["a", "", "ü"]),
        "label": (ABC, ["c", 0, "b"]),
        "vector": (Tensor(shape=(2,), dtype=np.float32), [[1, 2], [3, 4], [5, 6]]),
        "grid": (Tensor(shape=(2, 1), dtype=np.int16), [[[1], [2]], [[3], [4]], [[5], [6]]]),
        "words": (Tensor(shape=(2,), dtype=np.str_), [["p", "q"], ["", "r"], ["s", ""]]),
    }
    kinds["vector"] = (kinds["vector"][0], [np.array(v, np.float32) for v in kinds["vector"][1]])
    kinds["grid"] = (kinds["grid"][0], [np.array(v, np.int16) for v in kinds["grid"][1]])
    features: dict[str, Any] = {name: Sequence(element) for name, (element, _) in kinds.items()}
    features |= {f"{n}_3": Sequence(element, length=3) for n, (element, _) in kinds.items()}
    records = []
    for count in (3, 1, 0):
        record = {name: values[:count] for name, (_, values) in kinds.items()}
        record |= {f"{name}_3": values[::-1] for name, (_, values) in kinds.items()}
        records.append(record)
    return dataset("sequences", features, records)


def sequences_of_encoded() -> Golden:
    """Sequence of images and of encoded tensors, which are bytes values each."""
    encoded: dict[str, Any] = {
        "bytes": Tensor(shape=(2, 2), dtype=np.int16, encoding="bytes"),
        "zlib": Tensor(shape=(3,), dtype=np.float32, encoding="zlib"),
        "bool": Tensor(shape=(2,), dtype=np.bool_, encoding="bytes"),
        "image": tfds.features.Image(shape=(3, 4, 3)),
        "image_any": tfds.features.Image(),
        "depth": tfds.features.Image(shape=(2, 2, 1), dtype=np.float32),
    }
    features: dict[str, Any] = {name: Sequence(element) for name, element in encoded.items()}
    features |= {f"{name}_2": Sequence(element, length=2) for name, element in encoded.items()}
    features["dynamic"] = Sequence(Tensor(shape=(None, None), dtype=np.int32, encoding="bytes"))
    records = []
    for count in (2, 1, 0):
        record: dict[str, Any] = {}
        for name, feature in features.items():
            # TensorFlow's reader of TFDS fails for none of unknown shape.
            length = 2 if name.endswith("_2") else max(count, name == "dynamic")
            element = feature.feature
            shape = [size or 2 + count for size in element.shape]
            made = [picture(count + n, *shape).astype(element.np_dtype) for n in range(length)]
            record[name] = made
        records.append(record)
    return dataset("sequences_of_encoded", features, records)


def dicts() -> Golden:
    """Dicts in dicts, and Sequence of a dict, also of a known length."""
    objects = {
        "bbox": tfds.features.BBoxFeature(),
        "label": ABC,
        "inner": {"area": np.int64, "name": tfds.features.Text()},
    }
    features = {
        "image": {"id": np.int64, "file": {"name": tfds.features.Text(), "size": np.uint32}},
        "objects": Sequence(objects),
        "pair": Sequence({"x": np.float32, "y": np.float32}, length=2),
        "deep": {"deeper": {"deepest": Sequence(np.int32)}},
    }
    box = tfds.features.BBox(0.0, 0.25, 0.5, 1.0)
    records = [
        {
            "image": {"id": count, "file": {"name": f"{count}.png", "size": 2**32 - 1}},
            "objects": [
                {"bbox": box, "label": n % 3, "inner": {"area": n, "name": "n" * n}}
                for n in range(count)
            ],
            "pair": {"x": [0.5, 1.5], "y": [2.5, float(count)]},
            "deep": {"deeper": {"deepest": list(range(count))}},
        }
        for count in (2, 0, 3)
    ]
    return dataset("dicts", features, records)


def ragged() -> Golden:
    """Two and three levels of lists: of numbers, strings and dicts."""
    features = {
        "numbers": Sequence(Sequence(np.int32)),
        "floats": Sequence(Sequence(np.float32)),
        "words": Sequence(Sequence(tfds.features.Text())),
        "labels": Sequence({"tags": Sequence(ABC), "id": np.int64}),
        "three": Sequence(Sequence(Sequence(np.int64))),
        "three_words": Sequence(Sequence(Sequence(tfds.features.Text()))),
        "vectors": Sequence(Sequence(Tensor(shape=(2,), dtype=np.float32))),
        "uint64": Sequence(Sequence(np.uint64)),
        "bools": Sequence(Sequence(np.bool_)),
    }
    shapes = [[2, 0, 1], [3], []]
    records: list[Record] = []
    for number, lengths in enumerate(shapes):
        rows = [[number + i for i in range(length)] for length in lengths]
        records.append(
            {
                "numbers": rows,
                "floats": [[i / 2 for i in row] for row in rows],
                "words": [["w" * i for i in row] for row in rows],
                "labels": [{"tags": [i % 3 for i in row], "id": len(row)} for row in rows],
                "three": [rows, [], [[7], []]][: 3 - number],
                "three_words": [[[str(i) for i in row] for row in rows], [["x"]]][: 2 - number],
                "vectors": [[np.array([i, -i], np.float32) for i in row] for row in rows],
                "uint64": [[2**64 - 1 - i for i in row] for row in rows],
                "bools": [[i % 2 == 0 for i in row] for row in rows],
            }
        )
    return dataset("ragged", features, records)


def ragged_fixed() -> Golden:
    """Lists of lists of which some have a known length, or hold what has an unknown dimension."""
    features = {
        "outer": Sequence(Sequence(np.int32), length=2),
        "inner": Sequence(Sequence(np.int32, length=2)),
        "both": Sequence(Sequence(np.int32, length=3), length=2),
        "both_words": Sequence(Sequence(tfds.features.Text(), length=1), length=2),
        "inner_dict": Sequence({"xy": Sequence(np.float32, length=2), "n": np.int64}),
        "first_of_three": Sequence(Sequence(Sequence(np.int64)), length=1),
    }
    records = [
        {
            "outer": [[n], [n, n + 1]],
            "inner": [[n, n + i] for i in range(n)],
            "both": [[n, 1, 2], [3, 4, n]],
            "both_words": [["a" * n], ["b"]],
            "inner_dict": [{"xy": [0.5, float(i)], "n": i} for i in range(n)],
            "first_of_three": [[[n], list(range(n))]],
        }
        for n in range(3)
    ]
    # Of known lengths in lists TensorFlow's reader fails, and NumPy's gives a level too many.
    unread = ("inner", "both", "both_words", "inner_dict")
    return dataset("ragged_fixed", features, records, unread=unread)


def ragged_images() -> Golden:
    """Lists of lists of images and of encoded tensors."""
    features = {
        "images": Sequence(Sequence(tfds.features.Image(shape=(2, 3, 3)))),
        "frames": Sequence({"clip": tfds.features.Video(shape=(None, 2, 2, 1)), "id": np.int32}),
        "tensors": Sequence(Sequence(Tensor(shape=(2,), dtype=np.int16, encoding="zlib"))),
    }
    records = [
        {
            "images": [[picture(i, 2, 3, 3) for i in range(length)] for length in lengths],
            "frames": [{"clip": picture(n, n, 2, 2, 1), "id": n} for n in lengths],
            "tensors": [[np.array([i, -i], np.int16) for i in range(n)] for n in lengths],
        }
        for lengths in ([2, 0, 1], [1], [])
    ]
    return dataset("ragged_images", features, records)


def translations() -> Golden:
    """Translation as a feature, and of as many languages as each record has."""
    features = {
        "pair": tfds.features.Translation(languages=["en", "de"]),
        "several": tfds.features.TranslationVariableLanguages(languages=["de", "en", "fr"]),
        "unlisted": tfds.features.TranslationVariableLanguages(),
    }
    records: list[Record] = [
        {
            "pair": {"en": "the cat", "de": "die Katze"},
            "several": {"fr": ["le chat", "la chatte"], "en": "the cat"},
            "unlisted": {"xx": "?"},
        },
        {"pair": {"en": "", "de": "ü"}, "several": {"de": "x"}, "unlisted": {"b": "1", "a": "2"}},
    ]
    return dataset("translations", features, records)


def sentences() -> Golden:
    """Translation as the whole record."""
    features = tfds.features.Translation(languages=["de", "en"])
    records = [{"de": "eins", "en": "one"}, {"de": "zwei", "en": ""}]
    return dataset("sentences", features, records, config="de_en", supervised_keys=("de", "en"))


def episodes() -> Golden:
    """RLDS: steps in episodes, some of none."""
    steps = tfds.features.Dataset(
        {
            "observation": {
                "image": tfds.features.Image(shape=(4, 4, 3)),
                "state": Tensor(shape=(3,), dtype=np.float32),
            },
            "action": Tensor(shape=(2,), dtype=np.float64),
            "reward": np.float32,
            "discount": np.float32,
            "is_first": np.bool_,
            "is_last": np.bool_,
            "is_terminal": np.bool_,
            "language": tfds.features.Text(),
            "mode": ABC,
        }
    )
    features = {"steps": steps, "episode_id": np.int64, "metadata": {"path": tfds.features.Text()}}
    records = []
    for number, length in enumerate([3, 0, 1, 5]):
        made = [
            {
                "observation": {
                    "image": picture(10 * number + step, 4, 4, 3),
                    "state": np.array([number, step, 0.5], np.float32),
                },
                "action": np.array([step, -step], np.float64),
                "reward": step / 4,
                "discount": 1.0,
                "is_first": step == 0,
                "is_last": step == length - 1,
                "is_terminal": step == length - 1 and number > 0,
                "language": f"do {step}",
                "mode": step % 3,
            }
            for step in range(length)
        ]
        records.append({"steps": made, "episode_id": number, "metadata": {"path": f"/{number}"}})
    return dataset("episodes", features, records, shards=2)


def datasets() -> Golden:
    """Dataset of what is not a dict, of lists, and of images of any size."""
    nested = tfds.features.Dataset
    features = {
        "numbers": nested(np.int32),
        "words": nested(tfds.features.Text()),
        "lists": nested({"tokens": Sequence(np.int64)}),
        "pairs": nested({"pair": Sequence(np.int32, length=2)}),
        "dicts": nested({"objects": Sequence({"label": ABC, "name": tfds.features.Text()})}),
        "images": nested({"image": tfds.features.Image()}),
        "encoded": nested({"bytes": Tensor(shape=(2,), dtype=np.int16, encoding="bytes")}),
        "inner": {"deep": nested({"x": np.float32})},
    }
    records = [
        {
            "numbers": list(range(n)),
            "words": ["w" * i for i in range(n)],
            "lists": [{"tokens": list(range(i))} for i in range(n)],
            "pairs": [{"pair": [i, n]} for i in range(n)],
            "dicts": [
                {"objects": [{"label": j % 3, "name": "o" * j} for j in range(i)]} for i in range(n)
            ],
            "images": [{"image": picture(i, 3, 2 + n, 3)} for i in range(n)],
            "encoded": [{"bytes": np.array([i, n], np.int16)} for i in range(n)],
            "inner": {"deep": [{"x": i / 2} for i in range(n)]},
        }
        for n in (2, 0, 3)
    ]
    return dataset("datasets", features, records, unread=("pairs",))


def slashes() -> Golden:
    """Names with a slash in them, beside dicts that are stored under names of the same form."""
    features = {
        "a/b": np.int64,
        "a": {"c": np.int64, "d/e": tfds.features.Text()},
        "image/encoded": tfds.features.Image(shape=(2, 2, 1)),
        "list/of": Sequence({"x/y": np.int32}),
    }
    records = [
        {
            "a/b": n,
            "a": {"c": n + 10, "d/e": f"{n}"},
            "image/encoded": picture(n, 2, 2, 1),
            "list/of": {"x/y": list(range(n))},
        }
        for n in range(3)
    ]
    return dataset("slashes", features, records)
