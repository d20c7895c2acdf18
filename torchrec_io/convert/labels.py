"""The images in a folder and their classes."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .._storage.binary_file import open_binary
from .._storage.folders import stamps_in, subfolder_names
from .._storage.location import Location
from ..errors import ConversionError
from ..tools.report import JobReport

# Files with other suffixes are ignored.
IMAGE_SUFFIXES = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
# Labels that are used as class numbers: integers below a million.
_CLASS_NUMBER = re.compile("0|[1-9][0-9]{0,5}")


class LabelledImage(NamedTuple):
    """An image and its class.

    Attributes:
        file: File of the image.
        name: Path relative to the source folder, or to that of the class, with ``/`` between its
            parts.
        size: Size of the file in bytes.
        text: Name of the class, once it is known.
        label: Number of the class, once it is known.
    """

    file: Location
    name: str
    size: int
    text: str = ""
    label: int = -1


def label_images(
    root: Location,
    report: JobReport,
    label_pattern: str | re.Pattern[str] | None = None,
    labels: Location | None = None,
) -> tuple[list[LabelledImage], list[str]]:
    """Find the images of a folder and their classes.

    Args:
        root: The folder.
        report: Report that counts images without a class, and ignored files.
        label_pattern: Regular expression that finds the class in a file name.
        labels: A CSV file with the columns ``name`` and ``label``.

    Returns:
        The images, and the names of all classes in the order of their numbers.

    Raises:
        ConversionError: If there are no images; or if an image has no class, or a class or label
            has no image, unless the report skips errors.
        ValueError: If both ``label_pattern`` and ``labels`` are given, or the pattern has no group.
        OSError: If the folder or the file of labels cannot be read.
    """
    if label_pattern is not None and labels is not None:
        raise ValueError("label_pattern and labels cannot be used together")
    pattern = None if label_pattern is None else _compiled(label_pattern)
    found = _images_in(root, report.ignored)
    if not found:
        raise ConversionError("the folder has no images", path=root.name)
    if pattern is not None:
        images = list(_by_pattern(found, pattern, report))
        classes = _classes(images)
    elif labels is not None:
        images = list(_by_file(found, labels, report))
        classes = _classes(images)
    else:
        classes = _folders(root)
        images = list(_by_folder(found, report))
        for name in sorted({*classes} - {image.text for image in images}):
            reason = "the folder of the class has no images"
            report.skip(ConversionError(reason, path=root.child(name).name))
    numbers = {name: number for number, name in enumerate(classes)}
    return [image._replace(label=numbers[image.text]) for image in images], classes


# ---- finding ----


def _images_in(root: Location, ignored: Counter[str]) -> list[LabelledImage]:
    """Return the images of a folder and its subfolders in the order of their names."""
    sizes: dict[str, int | None]
    if root.local_path is None:
        stamps = stamps_in(root, is_recursive=True)
        sizes = {name: stamp.size for name, stamp in stamps.items()}
    else:
        sizes = dict(_local_files(root.local_path, "", ()))
    found = []
    for name in sorted(sizes, key=lambda name: name.split("/")):
        suffix, size = os.path.splitext(name)[1].lower(), sizes[name]
        if name.startswith(".") or "/." in name:
            ignored["hidden"] += 1
        elif suffix not in IMAGE_SUFFIXES:
            ignored[suffix or "no suffix"] += 1
        elif size is None:
            ignored["not a file"] += 1
        else:
            found.append(LabelledImage(root.child(name), name, size))
    return found


def _local_files(
    folder: str, prefix: str, above: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, int | None]]:
    """Yield the name and size of each file of a folder and its subfolders, also with cyclic links.

    A hidden folder has no size, nor has anything else that is not a file. The size of a broken link
    is 0: it is an error when it is opened.
    """
    status = os.stat(folder)
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    with os.scandir(folder) as entries:
        inside = list(entries)
    for entry in inside:
        name = prefix + entry.name
        try:
            status = entry.stat()
        except OSError:
            yield name, 0
            continue
        if stat.S_ISDIR(status.st_mode) and not entry.name.startswith("."):
            yield from _local_files(entry.path, f"{name}/", (*above, here))
        else:
            yield name, status.st_size if stat.S_ISREG(status.st_mode) else None


# ---- classes ----


def _folders(root: Location) -> list[str]:
    """Return the names of the folders of a folder."""
    classes = [name for name in subfolder_names(root) if not name.startswith(".")]
    if not classes:
        raise ConversionError(
            "the folder has no folders for classes; use label_pattern or labels", path=root.name
        )
    return classes


def _by_folder(found: Iterable[LabelledImage], report: JobReport) -> Iterator[LabelledImage]:
    for image in found:
        text, slash, name = image.name.partition("/")
        if slash:
            yield image._replace(name=name, text=text)
        else:
            reason = "the image is not in the folder of a class"
            report.skip(ConversionError(reason, path=image.file.name))


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
    found: Iterable[LabelledImage], pattern: re.Pattern[str], report: JobReport
) -> Iterator[LabelledImage]:
    group: int | str = "label" if "label" in pattern.groupindex else 1
    for image in found:
        match = pattern.search(image.file.basename)
        if match is None or not match[group]:
            reason = f"label_pattern {pattern.pattern!r} finds no label in the file name"
            report.skip(ConversionError(reason, path=image.file.name))
        else:
            yield image._replace(text=match[group])


def _by_file(
    found: Iterable[LabelledImage], labels: Location, report: JobReport
) -> Iterator[LabelledImage]:
    wanted = _read_labels(labels)
    for image in found:
        if image.name in wanted:
            yield image._replace(text=wanted.pop(image.name)[0])
        else:
            reason = f"the image has no label in {labels!r}"
            report.skip(ConversionError(reason, path=image.file.name))
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
        reader = csv.DictReader(file, strict=True)
        try:
            header = reader.fieldnames or []
            if header.count("name") != 1 or header.count("label") != 1:
                raise ValueError(f"the columns must be name and label, got {', '.join(header)!r}")
            for row in reader:
                if None in row or not row["name"] or not row["label"]:
                    raise ValueError("the row must have a name, a label and no further fields")
                name = os.path.normpath(row["name"]).replace(os.sep, "/")
                if name in wanted:
                    raise ValueError(f"{name!r} already has a label in line {wanted[name][1]}")
                wanted[name] = row["label"], reader.line_num
        except (ValueError, csv.Error) as error:
            raise ConversionError(
                f"line {reader.reader.line_num}: {error}", path=labels.name
            ) from None
    return wanted


def _classes(images: Iterable[LabelledImage]) -> list[str]:
    """Return the classes of images: all integers up to the largest one, or else their names."""
    classes = sorted({image.text for image in images})
    if all(map(_CLASS_NUMBER.fullmatch, classes)):
        return list(map(str, range(max(map(int, classes), default=-1) + 1)))
    return classes
