"""The images in a folder and their classes."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .._storage.binary_file import open_binary
from .._storage.folders import stamps_in
from .._storage.local import stamp_of
from .._storage.location import Location
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import ConversionError
from ..tools.report import JobReport

# Files with other suffixes are ignored.
IMAGE_SUFFIXES = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
# Integer labels below this are used as class numbers.
_MAX_CLASSES = 1_000_000


class ListedImage(NamedTuple):
    """A file with the suffix of an image.

    Attributes:
        location: The file.
        name: Path relative to the source folder, with ``/`` between its parts.
        stamp: Stamp of the file when it was found.
    """

    location: Location
    name: str
    stamp: Stamp

    @property
    def path(self) -> str:
        """Path or URL of the file."""
        return self.location.name

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.stamp.size


class LabelledImage(NamedTuple):
    """An image and its class.

    Attributes:
        file: File of the image. Its name is stored in the record.
        label: Number of the class.
        text: Name of the class.
    """

    file: ListedImage
    label: int
    text: str


class LabelledImages(NamedTuple):
    """All images, and the names of all classes in the order of their numbers."""

    images: list[LabelledImage]
    classes: list[str]


def label_images(
    root: Location,
    report: JobReport,
    label_pattern: str | re.Pattern[str] | None = None,
    labels: Location | None = None,
) -> LabelledImages:
    """Find the images of a folder and their classes.

    Args:
        root: The folder.
        report: Report that counts images without a class, and ignored files.
        label_pattern: Regular expression that finds the class in a file name.
        labels: A CSV file with the columns ``name`` and ``label``.

    Raises:
        ConversionError: If there are no images; or if an image has no class, or a class or label
            has no image, unless the report skips errors.
        ValueError: If both ``label_pattern`` and ``labels`` are given, or the pattern has no group.
        OSError: If the folder or the file of labels cannot be read.
    """
    if label_pattern is not None and labels is not None:
        raise ValueError("label_pattern and labels cannot be used together")
    pattern = None if label_pattern is None else _compiled(label_pattern)
    if root.local_path is None:
        found = list(_objects_in(root, report.ignored))
    else:
        found = list(_images_in(root.local_path, "", report.ignored, ()))
    if not found:
        raise ConversionError("the folder has no images", path=root.name)
    if pattern is not None:
        return _with_classes(_by_pattern(found, pattern, report))
    if labels is not None:
        return _with_classes(_by_file(found, labels, report))
    return _by_folder(root, found, report)


# ---- finding ----


def _images_in(
    folder: str, prefix: str, ignored: Counter[str], above: Sequence[tuple[int, int]]
) -> Iterator[ListedImage]:
    """Yield the images of a folder and its subfolders, sorted. Links cannot cause cycles."""
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
            # A broken link; opening it raises the error.
            yield ListedImage(Location(entry.path), name, Stamp((), 0, 0))
        elif entry.is_file():
            yield ListedImage(Location(entry.path), name, stamp_of(entry.stat()))
        else:
            ignored["not a file"] += 1


def _objects_in(root: Location, ignored: Counter[str]) -> Iterator[ListedImage]:
    """Yield the images of a folder of a store, in the order of :func:`_images_in`."""
    found = stamps_in(root, is_recursive=True)
    for name in sorted(found, key=lambda name: name.split("/")):
        if name.startswith(".") or "/." in name:
            ignored["hidden"] += 1
        elif not name.lower().endswith(IMAGE_SUFFIXES):
            ignored[os.path.splitext(name)[1].lower() or "no suffix"] += 1
        else:
            yield ListedImage(root.child(name), name, found[name])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link to itself is not a folder
            raise
        return False


# ---- classes ----


def _by_folder(root: Location, found: Sequence[ListedImage], report: JobReport) -> LabelledImages:
    if root.local_path is None:  # a store has no empty folders
        classes = sorted({image.name.partition("/")[0] for image in found if "/" in image.name})
    else:
        with os.scandir(root) as entries:
            classes = sorted(
                entry.name for entry in entries if _is_folder(entry) and entry.name[0] != "."
            )
    if not classes:
        raise ConversionError(
            "the folder has no folders for classes; use label_pattern or labels", path=root.name
        )
    pairs = []
    for image in found:
        label, slash, name = image.name.partition("/")
        if slash:
            pairs.append((image._replace(name=name), label))
        else:
            reason = "the image is not in the folder of a class"
            report.skip(ConversionError(reason, path=image.path))
    for name in sorted(set(classes) - {label for _, label in pairs}):
        reason = "the folder of the class has no images"
        report.skip(ConversionError(reason, path=root.child(name).name))
    return _numbered(pairs, classes)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"label_pattern must be a regular expression, got {pattern!r}: {error}"
        ) from None
    if not compiled.groups:
        raise ValueError(
            f"label_pattern must have a group for the label, such as '(?P<label>\\w+?)_\\d+', got "
            f"{compiled.pattern!r}"
        )
    return compiled


def _by_pattern(
    found: Iterable[ListedImage], pattern: re.Pattern[str], report: JobReport
) -> Iterator[tuple[ListedImage, str]]:
    group: int | str = "label" if "label" in pattern.groupindex else 1
    for image in found:
        match = pattern.search(os.path.basename(image.path))
        if match is None or not match[group]:
            reason = f"label_pattern {pattern.pattern!r} finds no label in the file name"
            report.skip(ConversionError(reason, path=image.path))
        else:
            yield image, match[group]


def _by_file(
    found: Iterable[ListedImage], labels: Location, report: JobReport
) -> Iterator[tuple[ListedImage, str]]:
    wanted = _read_labels(labels)
    for image in found:
        place = wanted.pop(image.name, None)
        if place is None:
            reason = f"the image has no label in {labels!r}"
            report.skip(ConversionError(reason, path=image.path))
        else:
            yield image, place[0]
    for name, (_, line) in wanted.items():
        reason = f"line {line}: there is no image {name!r} for this label"
        report.skip(ConversionError(reason, path=labels.name))


def _read_labels(labels: Location) -> dict[str, tuple[str, int]]:
    """Return the label and line number of each name."""
    wanted: dict[str, tuple[str, int]] = {}
    with (
        open_binary(labels) as content,
        io.TextIOWrapper(content, "utf-8-sig", "surrogateescape", newline="") as file,
    ):
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            if header.count("name") != 1 or header.count("label") != 1:
                raise ValueError(f"the columns must be name and label, got {', '.join(header)!r}")
            for fields in reader:
                if fields:
                    name, label = _name_and_label(header, fields)
                    if name in wanted:
                        first = wanted[name][1]
                        raise ValueError(f"{name!r} already has a label in line {first}")
                    wanted[name] = label, reader.line_num
        except (ValueError, csv.Error) as error:
            raise ConversionError(f"line {reader.line_num}: {error}", path=labels.name) from None
    return wanted


def _name_and_label(header: list[str], fields: list[str]) -> tuple[str, str]:
    if len(fields) != len(header):
        raise ValueError(f"the row has {counted(len(fields), 'field')}, expected {len(header)}")
    row = dict(zip(header, fields, strict=True))
    if not row["name"] or not row["label"]:
        raise ValueError("the name or the label is empty")
    return os.path.normpath(row["name"]).replace(os.sep, "/"), row["label"]


def _with_classes(pairs: Iterable[tuple[ListedImage, str]]) -> LabelledImages:
    """Number the classes by their integer labels, or in the order of their names."""
    pairs = list(pairs)
    classes = sorted({label for _, label in pairs})
    if all(map(_is_number, classes)):
        classes = list(map(str, range(max(map(int, classes), default=-1) + 1)))
    return _numbered(pairs, classes)


def _numbered(pairs: Iterable[tuple[ListedImage, str]], classes: list[str]) -> LabelledImages:
    numbers = {name: number for number, name in enumerate(classes)}
    images = [LabelledImage(image, numbers[label], label) for image, label in pairs]
    return LabelledImages(images, classes)


def _is_number(label: str) -> bool:
    plain = label.isascii() and label.isdigit() and len(label) < 8
    return plain and str(int(label)) == label and int(label) < _MAX_CLASSES
