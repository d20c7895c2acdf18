"""Places that indexes and manifests of data files are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..storage.location import Location, remember_stamps
from .index import IndexFacts, RecordIndex
from .index_file import SUFFIX
from .index_manifest import MANIFEST_NAME, ManifestEntry, tag_of
from .manifests import is_current, read_manifest

IndexFormat: TypeAlias = Literal["tfidx", "text"]


class IndexPlaces:
    """The places of the indexes of data files.

    Args:
        index_format: Format of the indexes.
        folder: Folder for all indexes. Default: each is beside its data file.

    Attributes:
        index_format: Format of the indexes.
        folder: Folder for all indexes, if they are not beside their data files.
    """

    def __init__(self, index_format: IndexFormat, folder: Location | None = None) -> None:
        self.index_format = index_format
        self._known: dict[Location, ManifestEntry] = {}  # entries of manifests, by data file
        # The same folder for processes in other working directories.
        self.folder = None if folder is None else folder.absolute()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the entries of manifests, which may be many and are compared with a listing.
        return type(self), (self.index_format, self.folder)

    def read_manifests(self, files: Sequence[Location]) -> None:
        """Read the manifests that are there, so that what has not changed is not read again."""
        if self.index_format == "text":
            return
        objects = {file: self.index_of(file).parent for file in files if file.local_path is None}
        folders = set(objects.values())
        entries = {folder: read_manifest(folder.child(MANIFEST_NAME)) for folder in folders}
        for file, folder in objects.items():
            entry = entries[folder].get(file.basename)
            if entry is not None and is_current(entry, file):
                self._known[file] = entry
        remember_stamps(map(self.index_of, self._known))

    def entry_up_to_date(self, file: Location) -> ManifestEntry | None:
        """Return the entry of an object that has not changed since, and whose index has not."""
        entry, beside = self._known.get(file), self.index_of(file).seen_stamp
        if entry is None or beside is None or not entry.index_tag:
            return None
        return entry if tag_of(beside) == entry.index_tag else None

    def index_of(self, file: Location) -> Location:
        """Return the location of the index of a data file."""
        target = file if self.folder is None else self.folder.child(file.basename)
        return target.beside(SUFFIX if self.index_format == "tfidx" else ".idx")

    def load(self, file: Location) -> RecordIndex:
        """Load the index of a data file; see :meth:`RecordIndex.load`."""
        load = RecordIndex.from_text if self.index_format == "text" else RecordIndex.load
        return load(self.index_of(file), file)

    def write(self, index: RecordIndex) -> None:
        """Write an index, all of it or nothing."""
        target = self.index_of(index.location)
        if self.index_format == "text":
            index.to_text(target)
        elif target.local_path is None:
            index.upload(target)
        else:
            index.save(target)

    def entry_of(self, index: RecordIndex) -> ManifestEntry | None:
        """Return the entry of an index in a manifest.

        None for local files, which open fast, and for an object that could be replaced unnoticed,
        because it has no ETag or version.
        """
        stamp = index.data_stamp
        if self.index_format == "text" or stamp is None or index.location.local_path is not None:
            return None
        tag = tag_of(stamp)
        facts = IndexFacts(*index.identity, index.compression)
        written = self.index_of(index.location).seen_stamp
        index_tag = "" if written is None else tag_of(written)
        return ManifestEntry(facts, tag, index_tag) if tag else None

    def by_folder(
        self, entries: Mapping[Location, ManifestEntry]
    ) -> dict[Location, dict[str, ManifestEntry]]:
        """Return the entries of the manifest of each folder that indexes were written to.

        Args:
            entries: An entry for each data file.
        """
        found: dict[Location, dict[str, ManifestEntry]] = {}
        for file, entry in entries.items():
            target = self.index_of(file)
            found.setdefault(target.parent, {})[target.basename.removesuffix(SUFFIX)] = entry
        return found
