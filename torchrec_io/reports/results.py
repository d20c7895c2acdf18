"""The result of :func:`torchrec_io.report`."""

from __future__ import annotations

import dataclasses
import html
import json
from dataclasses import dataclass
from typing import Any

from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._writing.output_group import OutputGroup
from ..checks import counted
from ..tools.outputs import refuse_inputs
from .content import (
    Duplicates,
    FeatureReport,
    FileReport,
    LabelOrder,
    NumberSummary,
    OtherRecords,
    Structure,
)

_FRAME_HEIGHT = 640


@dataclass(frozen=True)
class Report:
    """Report about the content of some files; made by :func:`torchrec_io.report`.

    In a notebook, a report shows itself as a page.

    Attributes:
        title: Names of the files without numbers of shards, or the name of their folder.
        kind: Name of the kind of the records, such as "tf.train.Example".
        files: A report of each file.
        records: Number of records in all files.
        inspected: Number of records whose values were read.
        is_exact: Whether these are all valid records. Otherwise statistics of values are those of a
            sample.
        unfit: Number of inspected records that could not be parsed.
        record_sizes: Statistics of the sizes of all records in bytes.
        features: A report of each feature, in natural order of the names.
        structures: Structure of records that are episodes or lists.
        others: Records that are not Examples.
        label: Name of the label, or None.
        label_order: Dependence of the label on the place of the record; None without a label.
        duplicates: Records with the same content, if they were compared.
        notes: Remarks about what was not possible, as sentences.
        schema_python: Schema as Python source; "" if there is none.
        schema_json: Schema as JSON; "" if there is none.
        schema_class: Name of the class of the schema in ``tio``.
        loop: Training loop as Python source.
        seconds: Duration in seconds.
        version: Version of this package.
        other_sets: Reports of the other sets of shards, if there are several, such as a training
            set and a validation set. This report is about the training set, or the first.
    """

    title: str
    kind: str
    files: tuple[FileReport, ...]
    records: int
    inspected: int
    is_exact: bool
    unfit: int
    record_sizes: NumberSummary
    features: tuple[FeatureReport, ...]
    structures: tuple[Structure, ...]
    others: tuple[OtherRecords, ...]
    label: str | None
    label_order: LabelOrder | None
    duplicates: Duplicates | None
    notes: tuple[str, ...]
    schema_python: str
    schema_json: str
    schema_class: str
    loop: str
    seconds: float
    version: str
    other_sets: tuple[Report, ...] = ()

    @property
    def file_bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.file_bytes for file in self.files)

    @property
    def record_bytes(self) -> int:
        """Size of the data of all records in bytes."""
        return sum(file.record_bytes for file in self.files)

    @property
    def damaged_files(self) -> tuple[FileReport, ...]:
        """Files in which damage was found."""
        return tuple(file for file in self.files if not file.is_valid)

    @property
    def ok(self) -> bool:
        """True if no damage was found, neither in the other sets."""
        return not self.damaged_files and all(other.ok for other in self.other_sets)

    def __repr__(self) -> str:
        return (
            f"Report({self.title!r}, {counted(self.records, 'record')} in "
            f"{counted(len(self.files), 'file')})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers, without pictures."""
        found = dataclasses.asdict(self)
        for feature in found["features"]:
            for thumbnail in (feature["images"] or {}).get("thumbnails", ()):
                del thumbnail["uri"], thumbnail["shape"]
        found["other_sets"] = [other.to_dict() for other in self.other_sets]
        found |= {"ok": self.ok, "file_bytes": self.file_bytes, "record_bytes": self.record_bytes}
        return found

    def to_json(self, indent: int | None = None) -> str:
        """Return :meth:`to_dict` as JSON, in ASCII.

        Args:
            indent: Number of spaces for each level, as for ``json.dumps``; None for one line.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self) -> str:
        """Return the report as a page of HTML that needs no other file and runs no script."""
        from .page import render  # noqa: PLC0415  # only for pages

        return render(self)

    def save(
        self, path: StrPath, *, force: bool = False, storage_options: StorageOptions = None
    ) -> None:
        """Write the page to a file, which appears when it is complete, or not at all.

        Args:
            path: Path of the file.
            force: Replace the file if it exists.
            storage_options: Options of a remote object, as for :class:`TFRecordDataset`.

        Raises:
            FileExistsError: If the file exists, unless it may be replaced.
            OSError: If the file cannot be written.
            ValueError: If the file is one of those that the report is about.
        """
        output = Location.of(path, storage_options)
        reports = (self, *self.other_sets)
        inputs = [Location.of(file.path) for report in reports for file in report.files]
        refuse_inputs(inputs, [output])
        page = self.to_html().encode()
        with OutputGroup(force=force) as group, group.open_file(output) as file:
            file.write(page)

    def _repr_html_(self) -> str:
        # In a frame of its own, the page and the notebook do not change each other's looks.
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe sandbox srcdoc="{page}" title="Report" '
            f'style="width: 100%; height: {_FRAME_HEIGHT}px; border: 1px solid #8888"></iframe>'
        )
