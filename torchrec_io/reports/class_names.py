"""The label of records, and the names of classes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from .._parsing.numpy_columns import RaggedRows, TextArray
from .._storage.binary_file import open_binary
from .._storage.file_sets import set_name
from .._storage.folders import has_file
from .._storage.location import Location
from ..errors import TorchRecIOError
from ..inspection.inference import Finding
from ..tfds.connectors import ClassLabel
from ..tfds.features_json import FEATURES_FILE, read_features
from ..tfds.info import INFO_FILE, read_info

# Names of the classes of a feature, by number.
Names: TypeAlias = Mapping[int, str]

# The label that conversions of images write.
_CONVERTED_LABEL = "image/class/label"

_LABEL = re.compile(r"(?:.*[/_.-])?(?:label|labels|class|target)(?:_?id)?", re.IGNORECASE)
_MOST_NAMES = 10_000
_MOST_LABELS_BYTES = 16 << 20


class Facts(NamedTuple):
    """Facts of files beside the data, which TensorFlow Datasets or a conversion wrote.

    Attributes:
        names: Names of the classes of features, by the feature's name.
        target: Name of the label, or None.
    """

    names: dict[str, Names]
    target: str | None


def read_facts(file: Location) -> Facts:
    """Return the facts beside a file; none of those that are not valid."""
    names = _read_labels_file(file)
    target = None
    folder = file.parent
    with suppress(TorchRecIOError, OSError):
        if has_file(folder.child(FEATURES_FILE)):
            features = read_features(folder)
            for leaf in features.leaves() if features is not None else ():
                if isinstance(leaf.feature, ClassLabel) and leaf.feature.names is not None:
                    names[leaf.name] = dict(enumerate(leaf.feature.names))
        if has_file(folder.child(INFO_FILE)):
            keys = read_info(folder).supervised_keys
            if isinstance(keys, tuple) and len(keys) == 2 and isinstance(keys[1], str):
                target = keys[1]
    return Facts(names, target)


def _read_labels_file(file: Location) -> dict[str, Names]:
    """Return the names in ``NAME.labels.txt``, which conversions of images write."""
    labels = file.parent.child(f"{set_name(file.basename)}.labels.txt")
    try:
        with open_binary(labels) as content:
            lines = content.read(_MOST_LABELS_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {_CONVERTED_LABEL: dict(enumerate(lines[:_MOST_NAMES]))}


def choose_label(findings: Mapping[str, Finding], target: str | None) -> str | None:
    """Return the feature that is most likely the label of a record, or None.

    It has one value in each record, and is the target that TFDS names, or has the name of a label.
    """
    candidates = [
        name
        for name, found in findings.items()
        if found.where == "context"
        and found.counts == (1, 1)
        and (found.kind == "int64" or (found.kind == "bytes" and (found.extent or (0, 99))[1] < 64))
    ]
    if target in candidates:
        return target
    named = list(filter(_LABEL.fullmatch, candidates)) or {"y"}.intersection(candidates)
    # Plain names are the shortest ones.
    return min(named, key=lambda name: (findings[name].kind != "int64", len(name)), default=None)


def twin_of(label: str, findings: Mapping[str, Finding]) -> str | None:
    """Return the feature that holds the name of the class in text, such as ``image/class/text``."""
    base = re.sub(r"(label|id|class)$", "", label)
    names = [f"{base}{end}" for end in ("text", "name", "label_name", "class_name")]
    names += [f"{label}_name", f"{label}_text", f"{label}/text", f"{label}/name"]
    texts = {name for name, found in findings.items() if found.kind == "bytes"}
    single = {name for name in texts - {label} if findings[name].counts == (1, 1)}
    return next((name for name in names if name in single), None)


class TwinNames:
    """Names of classes that the records themselves contain, beside the numbers."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._is_consistent = True

    def add(self, numbers: Sequence[Any], texts: Sequence[Any]) -> None:
        """Add the numbers and texts of some records; None where a record has none."""
        for number, text in zip(numbers, texts, strict=True):
            if not isinstance(number, int) or not isinstance(text, str):
                continue
            if self._names.setdefault(number, text) != text or len(self._names) > _MOST_NAMES:
                self._is_consistent = False

    @property
    def names(self) -> Names | None:
        """The names; None if there are none, or if a class has several."""
        return self._names if self._is_consistent and self._names else None


def first_values(column: RaggedRows) -> list[Any]:
    """Return the first value of each record: a number or a text; None where there is none."""
    values = column.values

    def value_at(position: int) -> Any:
        if isinstance(values, TextArray):
            return values.items(position, position + 1)[0].decode("utf-8", "backslashreplace")
        return values[position].item()

    bounds = itertools.pairwise(column.offsets.tolist())
    return [value_at(begin) if begin < end else None for begin, end in bounds]
