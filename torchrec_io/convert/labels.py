"""Which images a folder holds, and which class each of them is of."""

from __future__ import annotations

import csv
import errno
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import ConversionError
from ..storage.local import StrPath
from .jobs import Tally

# Files with other suffixes are not looked into.
IMAGE_SUFFIXES = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
# Labels that are whole numbers up to this are kept as they are.
_MOST_NUMBERED = 1_000_000


class FoundImage(NamedTuple):
    """A file that should be an image.

    Attributes:
        path: To open it by.
        name: Its path from the folder that was searched, parted by ``/``.
        size: Bytes in it.
    """

    path: str
    name: str
    size: int


class LabelledImage(NamedTuple):
    """An image and its class.

    Attributes:
        path: To open it by.
        name: What the record says it is called.
        size: Bytes in the file.
        label: Number of the class.
        text: Name of the class.
    """

    path: str
    name: str
    size: int
    label: int
    text: str


class Labelled(NamedTuple):
    """All images and all classes, whose numbers are their places."""

    images: list[LabelledImage]
    classes: list[str]


def label_images(
    source: StrPath,
    tally: Tally,
    label_pattern: str | re.Pattern[str] | None = None,
    labels: StrPath | None = None,
) -> Labelled:
    """Finds the images of a folder and their classes. See :func:`convert_images`.

    Raises:
        ConversionError: there is no image; or one without a class, or a class or label without an
            image, which are not to be skipped.
        ValueError: pattern and labels are both given, or the pattern has no group.
        OSError: the folder or the file of labels cannot be read.
    """
    if label_pattern is not None and labels is not None:
        raise ValueError("give a label pattern or a file of labels, not both")
    root = os.fspath(source)
    ignored: Counter[str] = Counter()
    pattern = None if label_pattern is None else _compiled(label_pattern)
    found = list(_images_in(root, "", ignored, ()))
    tally.ignored.update(ignored)
    if not found:
        raise ConversionError("the folder holds no image", path=root)
    if pattern is not None:
        return _numbered(_by_pattern(found, pattern, tally))
    if labels is not None:
        return _numbered(_by_file(found, os.fspath(labels), tally))
    return _by_folder(root, found, tally)


# ---- finding ----


def _images_in(
    folder: str, prefix: str, ignored: Counter[str], above: Sequence[tuple[int, int]]
) -> Iterator[FoundImage]:
    """Images of a folder and its folders, sorted; links are followed, but not in circles."""
    status = os.stat(folder)
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    with os.scandir(folder) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    for entry in inside:
        name = prefix + entry.name
        if entry.name.startswith("."):
            ignored["hidden"] += 1
        elif _is_folder(entry):
            yield from _images_in(entry.path, name + "/", ignored, (*above, here))
        elif not entry.name.lower().endswith(IMAGE_SUFFIXES):
            ignored[os.path.splitext(entry.name)[1].lower() or "no suffix"] += 1
        elif entry.is_symlink() and not os.path.exists(entry.path):
            yield FoundImage(entry.path, name, 0)  # leads nowhere, which opening it will say
        elif entry.is_file():
            yield FoundImage(entry.path, name, entry.stat().st_size)
        else:
            ignored["no file"] += 1


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link to itself is none
            raise
        return False


# ---- classes ----


def _by_folder(root: str, found: Iterable[FoundImage], tally: Tally) -> Labelled:
    with os.scandir(root) as entries:
        classes = sorted(
            entry.name for entry in entries if _is_folder(entry) and entry.name[0] != "."
        )
    if not classes:
        raise ConversionError(
            "the folder holds no folder for a class: give a label pattern or a file of labels",
            path=root,
        )
    numbers = {name: number for number, name in enumerate(classes)}
    images, full = [], set()
    for image in found:
        text, slash, name = image.name.partition("/")
        if slash:
            images.append(LabelledImage(image.path, name, image.size, numbers[text], text))
            full.add(text)
        else:
            tally.skip(ConversionError("the image is in no class's folder", path=image.path))
    for name in classes:
        if name not in full:
            reason = "the class's folder holds no image"
            tally.skip(ConversionError(reason, path=os.path.join(root, name)))
    return Labelled(images, classes)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the label pattern {pattern!r} is none: {error}") from None
    if not compiled.groups:
        raise ValueError(
            f"the label pattern {compiled.pattern!r} needs a group for the label, as in "
            r"'(?P<label>\w+?)_\d+'"
        )
    return compiled


def _by_pattern(
    found: Iterable[FoundImage], pattern: re.Pattern[str], tally: Tally
) -> Iterator[tuple[FoundImage, str]]:
    group: int | str = "label" if "label" in pattern.groupindex else 1
    for image in found:
        match = pattern.search(os.path.basename(image.path))
        if match is None or not match[group]:
            reason = f"the label pattern {pattern.pattern!r} finds no label in the file's name"
            tally.skip(ConversionError(reason, path=image.path))
        else:
            yield image, match[group]


def _by_file(
    found: Iterable[FoundImage], labels: str, tally: Tally
) -> Iterator[tuple[FoundImage, str]]:
    wanted = _read_labels(labels)
    for image in found:
        place = wanted.pop(image.name, None)
        if place is None:
            reason = f"the image has no label in {labels!r}"
            tally.skip(ConversionError(reason, path=image.path))
        else:
            yield image, place[0]
    for name, (_, line) in wanted.items():
        reason = f"line {line}: the label is for an image that is not there: {name!r}"
        tally.skip(ConversionError(reason, path=labels))


def _read_labels(path: str) -> dict[str, tuple[str, int]]:
    """Label and line of each name."""
    wanted: dict[str, tuple[str, int]] = {}
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            if header.count("name") != 1 or header.count("label") != 1:
                raise ValueError(f"the columns must be name and label, not {', '.join(header)!r}")
            for fields in reader:
                if fields:
                    name, label = _name_and_label(header, fields)
                    if name in wanted:
                        raise ValueError(f"{name!r} has a label in line {wanted[name][1]} already")
                    wanted[name] = label, reader.line_num
        except (ValueError, csv.Error) as error:
            raise ConversionError(f"line {reader.line_num}: {error}", path=path) from None
    return wanted


def _name_and_label(header: list[str], fields: list[str]) -> tuple[str, str]:
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields, where there are {len(header)} columns")
    row = dict(zip(header, fields, strict=True))
    if not row["name"] or not row["label"]:
        raise ValueError("the name or the label is empty")
    return os.path.normpath(row["name"]).replace(os.sep, "/"), row["label"]


def _numbered(pairs: Iterable[tuple[FoundImage, str]]) -> Labelled:
    pairs = list(pairs)
    labels = {label for _, label in pairs}
    if all(_is_number(label) for label in labels):
        classes = list(map(str, range(max(map(int, labels), default=-1) + 1)))
    else:
        classes = sorted(labels)
    numbers = {name: number for number, name in enumerate(classes)}
    images = [
        LabelledImage(image.path, image.name, image.size, numbers[label], label)
        for image, label in pairs
    ]
    return Labelled(images, classes)


def _is_number(label: str) -> bool:
    plain = label.isascii() and label.isdigit() and len(label) < 8
    return plain and str(int(label)) == label and int(label) < _MOST_NUMBERED
